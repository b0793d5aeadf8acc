use std::sync::{Arc, Mutex};

use super::*;

const BLOCK: MinimumBlock = MinimumBlock::new(4096).unwrap();
const NOW: Instant = Instant::ZERO;

/// A disk in memory whose requests must be whole blocks.
#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    in_flight: BTreeMap<u64, String>,
    /// Bytes of reads, as they were when the read was submitted.
    read: BTreeMap<u64, Vec<u8>>,
    ended: VecDeque<QueuedEnd>,
}

#[derive(Clone)]
struct SharedDisk(Arc<Mutex<Disk>>);

fn range(extent: ByteExtent) -> std::ops::Range<usize> {
    assert!(BLOCK.is_aligned(extent), "{extent:?} is not in whole blocks");
    index(extent.start)..index(extent.end())
}

impl QueuedDevice for SharedDisk {
    fn submit(&mut self, _now: Instant, token: u64, request: QueuedRequest<'_>) {
        let mut disk = self.0.lock().unwrap();
        let shown = match request {
            QueuedRequest::Read(extent) => {
                let bytes = disk.bytes[range(extent)].to_vec();
                disk.read.insert(token, bytes);
                format!("read {}+{}", extent.start, extent.length)
            }
            QueuedRequest::Write { offset, pieces, durability } => {
                let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
                let extent = ByteExtent { start: offset, length: bytes.len() as u64 };
                disk.bytes[range(extent)].copy_from_slice(&bytes);
                format!("write {offset}+{} {durability:?}", bytes.len())
            }
            QueuedRequest::Flush => "flush".into(),
            QueuedRequest::Discard(extent) => {
                range(extent);
                format!("discard {}+{}", extent.start, extent.length)
            }
            QueuedRequest::WriteZeroes { extent, durability, .. } => {
                disk.bytes[range(extent)].fill(0);
                format!("zeroes {}+{} {durability:?}", extent.start, extent.length)
            }
        };
        assert!(disk.in_flight.insert(token, shown).is_none(), "the token is in use");
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        self.0.lock().unwrap().ended.pop_front()
    }

    fn take_read(&mut self, token: u64, extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        let bytes = self.0.lock().unwrap().read.remove(&token).unwrap();
        assert_eq!(bytes.len(), range(extent).len());
        let mut left = bytes.as_slice();
        for piece in into {
            let (part, rest) = left.split_at(piece.len());
            piece.copy_from_slice(part);
            left = rest;
        }
        assert!(left.is_empty());
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}

struct Fixture {
    disk: SharedDisk,
    device: Box<dyn QueuedDevice>,
}

impl Fixture {
    fn new() -> Fixture {
        let disk = SharedDisk(Arc::new(Mutex::new(Disk { bytes: vec![1; 65536], ..Disk::default() })));
        let device = AlignedDevice::over(Box::new(disk.clone()), BLOCK);
        Fixture { disk, device }
    }

    fn write(&mut self, token: u64, start: u64, bytes: &[u8]) {
        let pieces = [IoSlice::new(bytes)];
        let durability = Durability::Volatile;
        self.device.submit(NOW, token, QueuedRequest::Write { offset: start, pieces: &pieces, durability });
    }

    fn in_flight(&self) -> Vec<String> {
        self.disk.0.lock().unwrap().in_flight.values().cloned().collect()
    }

    /// Ends the requests in flight, the highest tokens first.
    fn end_all(&mut self, result: Result<(), i32>) -> Vec<QueuedEnd> {
        let tokens: Vec<u64> = self.disk.0.lock().unwrap().in_flight.keys().copied().collect();
        for token in tokens.into_iter().rev() {
            let mut disk = self.disk.0.lock().unwrap();
            disk.in_flight.remove(&token);
            disk.ended.push_back(QueuedEnd { token, result });
        }
        std::iter::from_fn(|| self.device.poll(NOW)).collect()
    }

    fn finish(&mut self) -> Vec<u64> {
        let mut ended: Vec<QueuedEnd> = std::iter::from_fn(|| self.device.poll(NOW)).collect();
        while !self.in_flight().is_empty() {
            ended.extend(self.end_all(Ok(())));
        }
        assert!(ended.iter().all(|end| end.result.is_ok()));
        ended.into_iter().map(|end| end.token).collect()
    }

    fn byte(&self, at: usize) -> u8 {
        self.disk.0.lock().unwrap().bytes[at]
    }
}

#[test]
fn neighbours_within_a_block_are_written_one_after_the_other() {
    let mut fixture = Fixture::new();
    for sector in 0..8 {
        fixture.write(sector, 8192 + sector * 512, &[u8::try_from(sector + 10).unwrap(); 512]);
    }
    assert_eq!(fixture.in_flight(), ["read 8192+4096"], "the others wait");
    fixture.write(8, 16384, &[99; 512]);
    assert_eq!(fixture.in_flight(), ["read 8192+4096", "read 16384+4096"], "another block does not");
    let mut ended = fixture.finish();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let sectors: Vec<u8> = (0..8).map(|sector| fixture.byte(8192 + sector * 512)).collect();
    assert_eq!(sectors, [10, 11, 12, 13, 14, 15, 16, 17]);
    assert_eq!([fixture.byte(16384), fixture.byte(16384 + 512)], [99, 1]);
}

#[test]
fn a_long_write_has_a_head_blocks_and_a_tail() {
    let mut fixture = Fixture::new();
    let data: Vec<u8> = (0..24).flat_map(|sector| [sector + 10; 512]).collect();
    fixture.write(7, 3584, &data);
    assert_eq!(fixture.in_flight(), ["write 4096+8192 Volatile", "read 0+4096", "read 12288+4096"]);
    assert_eq!(fixture.finish(), [7]);
    let disk = fixture.disk.0.lock().unwrap();
    assert_eq!(disk.bytes[3584..3584 + data.len()], data);
    assert_eq!([disk.bytes[3583], disk.bytes[3584 + data.len()]], [1, 1]);
}

#[test]
fn zeroes_and_discards_of_parts_of_blocks_keep_the_rest() {
    let mut fixture = Fixture::new();
    let extent = ByteExtent { start: 512, length: 8192 };
    let (unmap, durability) = (Unmap::Allow, Durability::Durable);
    fixture.device.submit(NOW, 1, QueuedRequest::WriteZeroes { extent, unmap, durability });
    assert_eq!(fixture.in_flight(), ["zeroes 4096+4096 Durable", "read 0+4096", "read 8192+4096"]);
    assert_eq!(fixture.end_all(Ok(())), []);
    assert_eq!(fixture.in_flight(), ["write 0+4096 Durable", "write 8192+4096 Durable"]);
    assert_eq!(fixture.finish(), [1]);
    assert_eq!([511, 512, 8703, 8704].map(|at| fixture.byte(at)), [1, 0, 0, 1]);
    fixture.device.submit(NOW, 2, QueuedRequest::Discard(ByteExtent { start: 16896, length: 8192 }));
    assert_eq!(fixture.in_flight(), ["discard 20480+4096"]);
    fixture.device.submit(NOW, 3, QueuedRequest::Discard(ByteExtent { start: 512, length: 512 }));
    assert_eq!(fixture.device.next_wakeup(), Some(NOW), "the driver need not wait for it");
    assert_eq!(fixture.finish(), [3, 2]);
}

#[test]
fn a_read_of_a_partial_block_returns_that_part() {
    let mut fixture = Fixture::new();
    fixture.disk.0.lock().unwrap().bytes[4096..4608].fill(5);
    fixture.disk.0.lock().unwrap().bytes[4608..5120].fill(6);
    let extent = ByteExtent { start: 3584, length: 1536 };
    fixture.device.submit(NOW, 1, QueuedRequest::Read(extent));
    assert_eq!(fixture.finish(), [1]);
    let (mut first, mut second) = ([0; 512], [0; 1024]);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    fixture.device.take_read(1, extent, &mut into);
    assert_eq!((first, &second[..512], &second[512..]), ([1; 512], &[5; 512][..], &[6; 512][..]));
}

#[test]
fn a_failed_part_fails_its_own_request_only() {
    let mut fixture = Fixture::new();
    fixture.write(1, 512, &[2; 512]);
    fixture.write(2, 1024, &[3; 512]);
    assert_eq!(fixture.end_all(Err(libc::EIO)), [QueuedEnd { token: 1, result: Err(libc::EIO) }]);
    assert_eq!(fixture.finish(), [2]);
    assert_eq!([512, 1024].map(|at| fixture.byte(at)), [1, 3]);
}

#[test]
fn an_error_counts_more_than_zeroes_that_are_not_supported() {
    let mut fixture = Fixture::new();
    let extent = ByteExtent { start: 512, length: 8192 };
    let (unmap, durability) = (Unmap::Allow, Durability::Volatile);
    fixture.device.submit(NOW, 1, QueuedRequest::WriteZeroes { extent, unmap, durability });
    let end = |token, result| QueuedEnd { token, result };
    fixture.disk.0.lock().unwrap().in_flight.clear();
    let ends =
        [end(1, Err(libc::EOPNOTSUPP)), end(1 | HEAD, Err(libc::EIO)), end(1 | TAIL, Err(libc::EOPNOTSUPP))];
    fixture.disk.0.lock().unwrap().ended.extend(ends);
    assert_eq!(fixture.end_all(Ok(())), [end(1, Err(libc::EIO))]);
}

/// The orders in which the head, the middle and the tail of a request can end.
const ORDERS: [[u64; 3]; 6] =
    [[0, HEAD, TAIL], [0, TAIL, HEAD], [HEAD, 0, TAIL], [HEAD, TAIL, 0], [TAIL, 0, HEAD], [TAIL, HEAD, 0]];

impl Fixture {
    fn end(&mut self, token: u64, result: Result<(), i32>) -> Vec<QueuedEnd> {
        let mut disk = self.disk.0.lock().unwrap();
        disk.in_flight.remove(&token).expect("it is in flight");
        disk.ended.push_back(QueuedEnd { token, result });
        drop(disk);
        std::iter::from_fn(|| self.device.poll(NOW)).collect()
    }
}

#[test]
fn a_failed_part_fails_the_request_in_any_order() {
    for order in ORDERS {
        for failed in order {
            for zeroes in [false, true] {
                let mut fixture = Fixture::new();
                let extent = ByteExtent { start: 512, length: 12288 };
                let (unmap, durability) = (Unmap::Allow, Durability::Durable);
                match zeroes {
                    true => fixture.device.submit(
                        NOW,
                        1,
                        QueuedRequest::WriteZeroes { extent, unmap, durability },
                    ),
                    false => fixture.write(1, extent.start, &[2; 12288]),
                }
                for part in [HEAD, TAIL] {
                    assert_eq!(fixture.end(1 | part, Ok(())), [], "the blocks were read");
                }
                let mut ends = Vec::new();
                for part in order {
                    let result = if part == failed { Err(libc::ENOSPC) } else { Ok(()) };
                    assert_eq!(ends, [], "it ends once, after all of its parts");
                    ends = fixture.end(1 | part, result);
                }
                let end = QueuedEnd { token: 1, result: Err(libc::ENOSPC) };
                assert_eq!(ends, [end], "{order:?} with {failed:#x}");
            }
        }
    }
}

#[test]
fn a_block_that_cannot_be_read_fails_the_request() {
    for failed in [HEAD, TAIL] {
        let mut fixture = Fixture::new();
        fixture.write(1, 512, &[2; 12288]);
        assert_eq!(fixture.end(1 | failed, Err(libc::EIO)), []);
        assert_eq!(fixture.in_flight().len(), 2, "the block is not written");
        assert_eq!(fixture.end(1, Ok(())), []);
        let other = HEAD + TAIL - failed;
        assert_eq!(fixture.end(1 | other, Ok(())), [], "the other block was read");
        assert_eq!(fixture.end(1 | other, Ok(())), [QueuedEnd { token: 1, result: Err(libc::EIO) }]);
    }
}

#[test]
fn the_first_of_several_errors_counts() {
    let mut fixture = Fixture::new();
    fixture.write(1, 512, &[2; 12288]);
    assert_eq!(fixture.end(1 | HEAD, Err(libc::EIO)), []);
    assert_eq!(fixture.end(1, Err(libc::ENOSPC)), []);
    assert_eq!(fixture.end(1 | TAIL, Err(libc::ENOSPC)), [QueuedEnd { token: 1, result: Err(libc::EIO) }]);
}

#[test]
fn requests_of_whole_blocks_pass_their_errors_on() {
    let mut fixture = Fixture::new();
    fixture.write(1, 4096, &[2; 8192]);
    fixture.device.submit(NOW, 2, QueuedRequest::Flush);
    fixture.device.submit(NOW, 3, QueuedRequest::Read(ByteExtent { start: 512, length: 512 }));
    fixture.device.submit(NOW, 4, QueuedRequest::Discard(ByteExtent { start: 512, length: 8192 }));
    for token in 1..=4 {
        let end = QueuedEnd { token, result: Err(libc::EIO) };
        assert_eq!(fixture.end(token, Err(libc::EIO)), [end]);
    }
}

#[test]
fn a_durable_write_has_durable_parts() {
    let mut fixture = Fixture::new();
    let (bytes, durability) = ([2; 12288], Durability::Durable);
    let pieces = [IoSlice::new(&bytes)];
    fixture.device.submit(NOW, 1, QueuedRequest::Write { offset: 512, pieces: &pieces, durability });
    assert_eq!(fixture.in_flight()[0], "write 4096+8192 Durable");
    assert_eq!((fixture.end(1 | HEAD, Ok(())), fixture.end(1 | TAIL, Ok(()))), (vec![], vec![]));
    assert_eq!(fixture.in_flight()[1..], ["write 0+4096 Durable", "write 12288+4096 Durable"]);
}

/// The calls of a device, and what it reports of its extents.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn tell(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

impl QueuedDevice for Recorder {
    fn submit(&mut self, _now: Instant, _token: u64, _request: QueuedRequest<'_>) {}

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        None
    }

    fn take_restart(&mut self) -> bool {
        self.tell("restart");
        true
    }

    fn away(&self) -> Option<ServerOutage> {
        let no_time = std::time::Duration::ZERO;
        Some(ServerOutage { span: no_time, why: "away".into(), fails_in: no_time })
    }

    fn give_up(&mut self) {
        self.tell("give up");
    }

    fn begin_compare(&mut self, samples: &[Sample]) {
        self.tell(format!("compare {}", samples.len()));
    }

    fn end_compare(&mut self) -> Result<(), String> {
        Err("it differs".into())
    }

    fn expect(&mut self, samples: Vec<Sample>) {
        self.tell(format!("expect {}", samples.len()));
    }

    fn has_extents(&self) -> bool {
        true
    }

    fn ask_extents(&mut self, token: u64, extent: ByteExtent) {
        self.tell(format!("extents {token} {}+{}", extent.start, extent.length));
    }

    fn take_extents(&mut self) -> Option<ExtentsTold> {
        let part = |length| DeviceExtent { length, is_hole: length < 4096, is_zero: false };
        Some(ExtentsTold { token: 7, extents: vec![part(512), part(1024), part(8192)] })
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, _into: &mut [IoSliceMut<'_>]) {}

    fn next_wakeup(&self) -> Option<Instant> {
        Some(NOW)
    }
}

#[test]
fn other_calls_reach_the_device() {
    let recorder = Recorder::default();
    let mut device = AlignedDevice::over(Box::new(recorder.clone()), BLOCK);
    let samples = [3, 4].map(|block| Sample {
        block: kickcache_engine::units::BlockIndex::new(block),
        checksum: kickcache_engine::units::Checksum::new(1),
    });
    device.begin_compare(&samples);
    assert_eq!(device.end_compare(), Err("it differs".into()));
    device.expect(samples[..1].to_vec());
    device.give_up();
    assert!(device.take_restart() && device.has_extents());
    assert_eq!(device.away().unwrap().why, "away");
    assert_eq!(device.next_wakeup(), Some(NOW));
    assert_eq!(*recorder.0.lock().unwrap(), ["compare 2", "expect 1", "give up", "restart"]);
}

/// The device is asked about whole blocks, and the answer begins with the extent.
#[test]
fn extents_begin_where_the_question_does() {
    for (start, lengths) in [
        (4096, &[512, 1024, 8192][..]),
        (4096 + 256, &[256, 1024, 8192]),
        (4096 + 512, &[1024, 8192]),
        (4096 + 1024, &[512, 8192]),
        (4096 + 2048, &[7680]),
    ] {
        let recorder = Recorder::default();
        let mut device = AlignedDevice::over(Box::new(recorder.clone()), BLOCK);
        device.ask_extents(7, ByteExtent { start, length: 6000 });
        let whole = BLOCK.widened(ByteExtent { start, length: 6000 });
        let asked = format!("extents 7 {}+{}", whole.start, whole.length);
        assert_eq!(*recorder.0.lock().unwrap(), [asked]);
        let ExtentsTold { token, extents } = device.take_extents().unwrap();
        assert_eq!(token, 7);
        assert_eq!(extents.iter().map(|extent| extent.length).collect::<Vec<_>>(), lengths, "{start}");
        assert!(!extents.last().unwrap().is_hole);
    }
}
