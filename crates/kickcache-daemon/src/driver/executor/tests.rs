use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kickcache_engine::request::{RequestId, Unmap};
use kickcache_engine::units::{ByteExtent, VolumeId, VolumeSet};

use super::*;
use crate::driver::backend::IoKind;
use crate::driver::budget::{Budget, Claim};
use crate::driver::clock::Clock;
use crate::driver::device::{AccessMode, Emptiness};
use crate::driver::io_engine::IoEngine;
use crate::driver::operation::DiscardKind;
use crate::driver::queued_device::{QueuedEnd, QueuedRequest};
use crate::wakeup::Wakeup;

const ORIGIN: Device = Device::Origin(VolumeId::new(0));
const SIZE: u64 = 4 << 20;

struct Fixture {
    _directory: tempfile::TempDir,
    path: PathBuf,
    driver: Driver,
    clock: Clock,
    next: u64,
}

#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    id: u64,
    result: Result<(Vec<Checksum>, Vec<u8>), DeviceError>,
}

impl Fixture {
    fn new(io_engine: IoEngine) -> Fixture {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("device");
        std::fs::write(&path, pattern(SIZE)).unwrap();
        let driver = open(&path, io_engine);
        Fixture { _directory: directory, path, driver, clock: Clock::start(), next: 0 }
    }

    fn submit(&mut self, operation: DeviceOperation) -> u64 {
        self.next += 1;
        let id = SubmissionId::from_u64(self.next);
        self.driver.submit(self.clock.now(), Submission { id, operation });
        self.next
    }

    fn wait(&mut self) -> Outcome {
        loop {
            let now = self.clock.now();
            if let Some(completion) = self.driver.poll_completion(now) {
                let id = completion.id.as_u64();
                let result = completion.result.map(|data| (data.checksums.to_vec(), data.bytes.to_vec()));
                return Outcome { id, result };
            }
            self.driver.wait(now, None).unwrap();
        }
    }

    fn run(&mut self, operation: DeviceOperation) -> Outcome {
        let id = self.submit(operation);
        let outcome = self.wait();
        assert_eq!(outcome.id, id);
        outcome
    }

    fn request(&mut self, start: u64, length: u64) -> RequestId {
        let (buffers, extent) = (self.driver.buffers(), ByteExtent { start, length });
        let claim = Claim { volume: 0, bytes: Buffers::cost(extent), held: 0, key: 0 };
        let grant = buffers.budget.reserve(claim).unwrap();
        buffers.allocate(grant, extent).unwrap()
    }

    fn content(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        std::fs::File::open(&self.path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }
}

fn open(path: &Path, io_engine: IoEngine) -> Driver {
    let file = BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    let media = vec![NamedMedium { device: ORIGIN, medium: Medium::File(file) }];
    Driver::open(DriverSettings { io_engine, budget: Budget::alone(16 << 20), pool_pages: 64, media })
        .unwrap()
}

fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|byte| u8::try_from((byte / 7 + byte / 4096) % 251).unwrap()).collect()
}

fn on_both(test: impl Fn(Fixture)) {
    test(Fixture::new(IoEngine::Threads));
    if Ring::new().is_err() {
        return eprintln!("skipped: io_uring is not permitted here");
    }
    test(Fixture::new(IoEngine::IoUring));
}

fn of_request(id: RequestId, offset: u32, length: u32) -> Piece {
    Piece { memory: Memory::Request { id, offset }, length }
}

fn of_pool(page: u32, length: u32) -> Piece {
    Piece { memory: Memory::Pool { page: PageIndex::new(page), offset: 0 }, length }
}

fn read(offset: u64, pieces: Pieces, checksums: Checksums) -> DeviceOperation {
    DeviceOperation::Read { device: ORIGIN, offset, pieces, checksums }
}

fn write(offset: u64, pieces: Pieces, durability: Durability) -> DeviceOperation {
    DeviceOperation::Write { device: ORIGIN, offset, pieces, durability }
}

#[test]
fn reads_bring_bytes_and_checksums() {
    on_both(|mut fixture| {
        let id = fixture.request(8192, 8192);
        let outcome = fixture.run(read(8192, Pieces::One(of_request(id, 0, 8192)), Checksums::Compute));
        let expected = &pattern(SIZE)[8192..16384];
        assert_eq!(fixture.driver.buffers().payload(id), expected);
        let sums = expected.chunks(4096).map(checksum).collect();
        assert_eq!(outcome.result, Ok((sums, Vec::new())));
    });
}

#[test]
fn scattered_pieces_have_checksums_across_their_borders() {
    on_both(|mut fixture| {
        let id = fixture.request(512, 4096);
        let pieces = vec![of_pool(3, 1024), of_request(id, 0, 2048), of_pool(9, 1024), of_pool(5, 4096)];
        let outcome = fixture.run(read(512, Pieces::Many(pieces), Checksums::Compute));
        let expected = &pattern(SIZE)[512..512 + 8192];
        let sums = expected.chunks(4096).map(checksum).collect();
        assert_eq!(outcome.result, Ok((sums, Vec::new())));
        assert_eq!(&fixture.driver.buffers().payload(id)[..2048], &expected[1024..3072]);
    });
}

#[test]
fn writes_store_all_pieces_in_order() {
    on_both(|mut fixture| {
        let id = fixture.request(4096, 4096);
        fixture.driver.buffers().payload_mut(id).fill(0xaa);
        let zero =
            DeviceOperation::Zero { to: of_pool(0, 0).memory, length: 4096, checksums: Checksums::Skip };
        fixture.submit(zero);
        let pieces = Pieces::Many(vec![of_request(id, 0, 4096), of_pool(0, 4096)]);
        assert!(fixture.run(write(4096, pieces, Durability::Durable)).result.is_ok());
        let mut expected = pattern(SIZE)[..16384].to_vec();
        expected[4096..8192].fill(0xaa);
        expected[8192..12288].fill(0);
        assert_eq!(fixture.content(0, 16384), expected);
    });
}

#[test]
fn many_operations_at_once_all_end() {
    on_both(|mut fixture| {
        let mut open: Vec<u64> = (0..3000_u64)
            .map(|round| {
                let page = u32::try_from(round % 64).unwrap();
                let pieces = Pieces::One(of_pool(page, 4096));
                fixture.submit(read(round % 1000 * 4096, pieces, Checksums::Skip))
            })
            .collect();
        while !open.is_empty() {
            let outcome = fixture.wait();
            assert!(outcome.result.is_ok());
            let position = open.iter().position(|&id| id == outcome.id).unwrap();
            open.swap_remove(position);
        }
        assert!(fixture.driver.poll_completion(Instant::ZERO).is_none());
        assert_eq!(fixture.driver.in_flight(), 0);
    });
}

#[test]
fn metadata_goes_out_with_its_payload_and_comes_back() {
    for io_engine in [IoEngine::Threads, IoEngine::IoUring] {
        if io_engine == IoEngine::IoUring && Ring::new().is_err() {
            return eprintln!("skipped: io_uring is not permitted here");
        }
        let mut fixture = Fixture::new(IoEngine::Threads);
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("cache");
        std::fs::write(&path, pattern(SIZE)).unwrap();
        let file = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
        let media = vec![NamedMedium { device: Device::Cache, medium: Medium::File(file) }];
        let settings = DriverSettings { io_engine, budget: Budget::alone(1 << 20), pool_pages: 4, media };
        fixture.driver = Driver::open(settings).unwrap();
        let zero =
            DeviceOperation::Zero { to: of_pool(0, 0).memory, length: 4096, checksums: Checksums::Compute };
        assert_eq!(fixture.run(zero).result, Ok((vec![checksum(&[0; 4096])], Vec::new())));
        let out = DeviceOperation::WriteMetadata {
            device: Device::Cache,
            offset: 8192,
            bytes: vec![7; 4096].into(),
            pieces: vec![of_pool(0, 4096)],
            durability: Durability::Volatile,
        };
        assert!(fixture.run(out).result.is_ok());
        let back = DeviceOperation::ReadMetadata { extent: ByteExtent { start: 4096, length: 12288 } };
        let mut expected = pattern(SIZE)[4096..16384].to_vec();
        expected[4096..8192].fill(7);
        expected[8192..].fill(0);
        assert_eq!(fixture.run(back).result, Ok((Vec::new(), expected)));
    }
}

#[test]
fn discard_and_write_zeroes_leave_zeroes() {
    on_both(|mut fixture| {
        let extent = |block: u64| ByteExtent { start: block * 4096, length: 8192 };
        let zeroes = |block, unmap, durability| DeviceOperation::WriteZeroes {
            device: ORIGIN,
            extent: extent(block),
            unmap,
            durability,
        };
        let discard = DeviceOperation::Discard { device: ORIGIN, extent: extent(1) };
        assert!(fixture.run(discard).result.is_ok());
        assert!(fixture.run(zeroes(4, Unmap::Allow, Durability::Durable)).result.is_ok());
        assert!(fixture.run(zeroes(8, Unmap::Forbid, Durability::Volatile)).result.is_ok());
        assert!(fixture.run(DeviceOperation::Flush { device: ORIGIN }).result.is_ok());
        let mut expected = pattern(SIZE)[..65536].to_vec();
        for block in [1, 4, 8] {
            expected[block * 4096..block * 4096 + 8192].fill(0);
        }
        assert_eq!(fixture.content(0, 65536), expected);
    });
}

#[test]
fn zeroes_are_written_where_the_device_cannot_make_them() {
    on_both(|mut fixture| {
        for (length, errno) in [(1 << 20, libc::EINVAL), (3 << 20, libc::EOPNOTSUPP)] {
            let token = fixture.driver.begin(SubmissionId::from_u64(9), ORIGIN, Work::Flush, 4096);
            let operation = fixture.driver.operation(token);
            operation.work = Work::Zero { mode: 0, durability: Durability::Durable };
            operation.length = length;
            fixture.driver.advance(Instant::ZERO, token, -errno);
            assert_eq!(fixture.wait().result, Ok((Vec::new(), Vec::new())));
            let length = usize::try_from(length).unwrap();
            assert!(fixture.content(4096, length).iter().all(|&byte| byte == 0));
            assert_eq!(fixture.content(4096 + length as u64, 512), pattern(SIZE)[4096 + length..][..512]);
        }
    });
}

#[test]
fn one_flush_follows_zeroes_that_were_stored_and_written() {
    let mut operation = Operation::new();
    let work = Work::Zero { mode: 0, durability: Durability::Durable };
    operation.begin(SubmissionId::from_u64(1), ORIGIN, work);
    (operation.offset, operation.length) = (4096, 4096);
    let edges = [3584, 8192].map(|start| ByteExtent { start, length: 512 });
    operation.unwritten.extend(edges);
    let target = Target { fd: -1, fixed: None, way: Way::Any };
    assert!(matches!(operation.next_io(target).kind, IoKind::Allocate { length: 4096, .. }));
    assert_eq!(operation.advance(0), SubmissionStep::WriteZeroes);
    let mut memory = vec![0_u8; 512];
    for (edge, next) in edges.into_iter().rev().zip([SubmissionStep::WriteZeroes, SubmissionStep::Continue]) {
        operation.begin_written_zeroes(memory.as_mut_ptr(), memory.len());
        let io = operation.next_io(target);
        assert!(io.offset == edge.start && matches!(io.kind, IoKind::Write { count: 1, flags: 0, .. }));
        assert_eq!(operation.advance(512), next);
    }
    assert!(matches!(operation.next_io(target).kind, IoKind::DataSync));
    assert_eq!(operation.advance(0), SubmissionStep::Done);
}

#[test]
fn a_discard_of_a_refused_shape_is_no_fault() {
    on_both(|mut fixture| {
        let work = Work::Discard(DiscardKind::Block);
        let token = fixture.driver.begin(SubmissionId::from_u64(9), ORIGIN, work, 512);
        fixture.driver.advance(Instant::ZERO, token, -libc::EINVAL);
        assert_eq!(fixture.wait().result, Err(DeviceError::Unsupported));
        assert!(!fixture.driver.has_faults());
    });
}

#[test]
fn long_zeroes_and_discards_take_calls_of_a_bounded_length() {
    let target = Target { fd: -1, fixed: None, way: Way::Any };
    let mut operation = Operation::new();
    for work in [Work::Zero { mode: 0, durability: Durability::Volatile }, Work::Discard(DiscardKind::Block)]
    {
        operation.begin(SubmissionId::from_u64(1), ORIGIN, work);
        (operation.offset, operation.length) = (4096, (5 << 30) + 8192);
        let mut calls = Vec::new();
        loop {
            let io = operation.next_io(target);
            let (IoKind::Allocate { length, .. } | IoKind::BlockDiscard { length }) = io.kind else {
                panic!()
            };
            calls.push((io.offset, length));
            if operation.advance(0) == SubmissionStep::Done {
                break;
            }
        }
        assert_eq!(calls.len(), 6);
        assert_eq!(calls[0], (4096, 1 << 30));
        assert_eq!(calls[5], (4096 + (5 << 30), 8192));
    }
}

#[test]
fn zeroes_of_any_length_are_written_from_little_memory() {
    let memory = [0u8; 4096];
    let mut operation = Operation::new();
    operation.begin(SubmissionId::from_u64(1), ORIGIN, Work::zero(Unmap::Allow, Durability::Volatile));
    operation.unwritten.push(ByteExtent { start: 512, length: (14 << 40) + 512 });
    operation.begin_written_zeroes(memory.as_ptr().cast_mut(), memory.len());
    assert_eq!((operation.stretches.len(), operation.stretches_left().len()), (1, 16));
    assert_eq!(operation.advance(16 * 4096), SubmissionStep::Continue);
    assert_eq!(operation.next_offset(), 512 + 16 * 4096);
    operation.length = 17 * 4096 + 512;
    assert_eq!(operation.repeated_length(), Some(4096 + 512));
    assert_eq!(operation.advance(4096 + 512), SubmissionStep::Done);
}

#[test]
fn reading_past_a_file_that_was_cut_is_an_error() {
    on_both(|mut fixture| {
        std::fs::OpenOptions::new().write(true).open(&fixture.path).unwrap().set_len(6144).unwrap();
        let whole = fixture.run(read(0, Pieces::One(of_pool(0, 16384)), Checksums::Skip));
        assert_eq!(whole.result, Err(DeviceError::Io));
        let fault =
            Fault { device: ORIGIN, operation: "read", offset: 0, length: 16384, cause: Cause::Short };
        assert_eq!((fixture.driver.take_faults(), fixture.driver.has_faults()), (vec![fault], false));
    });
}

#[test]
fn a_device_that_does_not_exist_is_gone() {
    on_both(|mut fixture| {
        let flush = DeviceOperation::Flush { device: Device::Cache };
        assert_eq!(fixture.run(flush).result, Err(DeviceError::Gone));
    });
}

#[test]
fn short_transfers_are_continued() {
    let mut operation = Operation::new();
    operation.begin(SubmissionId::from_u64(1), ORIGIN, Work::Read);
    let mut memory = vec![0_u8; 4 * 4096];
    let base = memory.as_mut_ptr();
    operation.add(base, 4096);
    operation.add(base.wrapping_add(4096), 4096);
    operation.add(base.wrapping_add(3 * 4096), 4096);
    assert_eq!(operation.stretches.len(), 2, "neighbours are joined");
    assert_eq!(operation.advance(8192 + 512), SubmissionStep::Continue);
    let io = operation.next_io(Target { fd: -1, fixed: None, way: Way::Any });
    assert_eq!(io.offset, 8704);
    assert!(matches!(io.kind, IoKind::Read { count: 1, .. }));
    assert_eq!(operation.advance(-libc::EINTR), SubmissionStep::Continue);
    assert_eq!(operation.advance(4096 - 512), SubmissionStep::Done);
}

/// tmpfs is not in the list of file systems that honour the flag.
#[test]
fn the_flag_is_trusted_on_known_file_systems_only() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return eprintln!("skipped: no /dev/shm") };
    let path = directory.path().join("device");
    std::fs::write(&path, pattern(SIZE)).unwrap();
    let driver = open(&path, IoEngine::Threads);
    assert_eq!(driver.write_sync(ORIGIN, Durability::Durable), WriteSync::After);
    assert_eq!(driver.write_sync(ORIGIN, Durability::Volatile), WriteSync::Not);
}

#[test]
fn durable_zeroes_end_with_a_flush() {
    let next = |durability| {
        let mut operation = Operation::new();
        operation.begin(SubmissionId::from_u64(1), ORIGIN, Work::Zero { mode: 0, durability });
        let next = operation.advance(0);
        (next, operation.next_io(Target { fd: -1, fixed: None, way: Way::Any }).kind)
    };
    assert!(matches!(next(Durability::Durable), (SubmissionStep::Continue, IoKind::DataSync)));
    assert!(matches!(next(Durability::Volatile), (SubmissionStep::Done, _)));
}

#[test]
fn durable_zeroes_stay_durable_where_they_are_written() {
    on_both(|mut fixture| {
        for (durability, is_durable) in [(Durability::Durable, true), (Durability::Volatile, false)] {
            let token = fixture.driver.begin(SubmissionId::from_u64(9), ORIGIN, Work::Flush, 0);
            let operation = fixture.driver.operation(token);
            (operation.work, operation.length) = (Work::Zero { mode: 0, durability }, 4096);
            fixture.driver.advance(Instant::ZERO, token, -libc::EOPNOTSUPP);
            assert_eq!(fixture.driver.operation(token).work, Work::WrittenZeroes { durability });
            assert!(fixture.wait().result.is_ok());
            assert_eq!(fixture.driver.operation(token).work == Work::Flush, is_durable);
        }
    });
}

#[test]
fn without_fua_a_durable_write_ends_with_a_flush() {
    let mut operation = Operation::new();
    operation.begin(SubmissionId::from_u64(1), Device::Cache, Work::Write(WriteSync::After));
    let mut memory = vec![0_u8; 4096];
    operation.add(memory.as_mut_ptr(), 4096);
    let target = Target { fd: -1, fixed: None, way: Way::Any };
    assert!(matches!(operation.next_io(target).kind, IoKind::Write { flags: 0, .. }));
    assert_eq!(operation.advance(4096), SubmissionStep::Continue);
    assert!(matches!(operation.next_io(target).kind, IoKind::DataSync));
    assert_eq!(operation.advance(-libc::EIO), SubmissionStep::Failed(Cause::Errno(libc::EIO)));
}

#[test]
fn a_wait_does_not_sleep_while_completions_are_left() {
    on_both(|mut fixture| {
        for _ in 0..4 {
            fixture.submit(DeviceOperation::Flush { device: Device::Cache });
        }
        let deadline = fixture.clock.now().plus(Duration::from_millis(20_000));
        let mut left = 4;
        while left > 0 {
            // If dropped completions counted, the last of these waits would last until the deadline.
            fixture.driver.wait(fixture.clock.now(), Some(deadline)).unwrap();
            assert!(fixture.clock.now() < deadline, "{left} completions were left behind");
            left -= usize::from(fixture.driver.poll_completion(Instant::ZERO).is_some());
        }
        assert!(fixture.driver.poll_completion(Instant::ZERO).is_none());
    });
}

#[test]
fn only_time_before_the_first_event_counts() {
    on_both(|mut fixture| {
        let now = fixture.clock.now();
        let span = Duration::from_millis(20);
        let slept = fixture.driver.wait(now, Some(now.plus(span))).unwrap();
        let passed = fixture.clock.now().since(now);
        assert!(slept <= passed, "{slept:?} of {passed:?}");
        fixture.submit(DeviceOperation::Flush { device: Device::Cache });
        while !fixture.driver.has_completions() {
            fixture.driver.wait(fixture.clock.now(), None).unwrap();
        }
        let later = fixture.clock.now().plus(span);
        let slept = fixture.driver.wait(fixture.clock.now(), Some(later)).unwrap();
        assert_eq!(slept, Duration::default(), "there is something to take");
    });
}

struct Counted {
    has_work: bool,
    armed: u32,
}

impl Doorbells for Counted {
    fn has_work(&self) -> bool {
        self.has_work
    }

    fn arm(&mut self) -> bool {
        self.armed += 1;
        self.has_work
    }
}

#[test]
fn a_wait_ends_at_once_when_a_doorbell_has_work() {
    on_both(|mut fixture| {
        let mut doorbells = Counted { has_work: true, armed: 0 };
        let flush = fixture.submit(DeviceOperation::Flush { device: ORIGIN });
        // Without the work the last of these waits would never end.
        for _ in 0..100 {
            fixture.driver.wait_beside(fixture.clock.now(), None, &mut doorbells).unwrap();
            let completion = fixture.driver.poll_completion(Instant::ZERO);
            assert!(completion.is_none_or(|completion| completion.id.as_u64() == flush));
        }
        assert!(doorbells.armed > 0);
    });
}

#[test]
fn doorbells_are_armed_before_a_sleep_and_not_without_one() {
    on_both(|mut fixture| {
        let mut doorbells = Counted { has_work: false, armed: 0 };
        let now = fixture.clock.now();
        fixture.driver.wait_beside(now, Some(now), &mut doorbells).unwrap();
        assert_eq!(doorbells.armed, 0, "nobody sleeps");
        let later = now.plus(Duration::from_millis(5));
        fixture.driver.wait_beside(now, Some(later), &mut doorbells).unwrap();
        assert_eq!(doorbells.armed, 1);
    });
}

#[test]
fn a_command_without_io_uring_ends_with_an_error() {
    let mut fixture = Fixture::new(IoEngine::Threads);
    let device = std::fs::File::open(&fixture.path).unwrap();
    let mut doorbells = Counted { has_work: false, armed: 0 };
    let now = fixture.clock.now();
    fixture.driver.command(5, std::os::fd::AsFd::as_fd(&device), 1, [0; 16]);
    let later = now.plus(Duration::from_millis(5));
    fixture.driver.wait_beside(now, Some(later), &mut doorbells).unwrap();
    assert_eq!(fixture.driver.poll_command(), Some((5, -libc::EOPNOTSUPP)));
    assert_eq!((fixture.driver.poll_command(), doorbells.armed), (None, 0), "nobody sleeps");
}

#[test]
fn sockets_become_ready_during_device_io() {
    use std::io::Write;
    use std::os::fd::AsFd;
    on_both(|mut fixture| {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        fixture.driver.watch(theirs.as_fd(), 77, Interest::Readable);
        fixture.driver.watch(theirs.as_fd(), 77, Interest::Writable);
        let mut seen = Vec::new();
        while seen.is_empty() {
            fixture.driver.wait(Instant::ZERO, None).unwrap();
            assert!(fixture.driver.poll_completion(Instant::ZERO).is_none());
            seen.extend(fixture.driver.poll_ready());
        }
        assert_eq!(seen, [(77, Interest::Writable)]);
        ours.write_all(b"x").unwrap();
        while seen.len() < 2 {
            fixture.driver.wait(Instant::ZERO, None).unwrap();
            assert!(fixture.driver.poll_completion(Instant::ZERO).is_none());
            seen.extend(fixture.driver.poll_ready());
        }
        assert_eq!(seen[1], (77, Interest::Readable));
        let later = fixture.clock.now().plus(Duration::from_millis(5));
        fixture.driver.wait(fixture.clock.now(), Some(later)).unwrap();
        assert!(fixture.clock.now() >= later, "a timeout is kept");
        fixture.driver.unwatch(theirs.as_fd(), 77);
    });
}

/// A disk in memory on which every operation takes 3 ms, and which cannot store zeroes efficiently.
struct Slow {
    bytes: Vec<u8>,
    ends: VecDeque<(Instant, u64, Result<(), i32>)>,
}

fn place(extent: ByteExtent) -> std::ops::Range<usize> {
    usize::try_from(extent.start).unwrap()..usize::try_from(extent.end()).unwrap()
}

impl QueuedDevice for Slow {
    fn submit(&mut self, now: Instant, token: u64, request: QueuedRequest<'_>) {
        let result = match request {
            QueuedRequest::Write { offset, pieces, .. } => {
                let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
                let extent = ByteExtent { start: offset, length: bytes.len() as u64 };
                self.bytes[place(extent)].copy_from_slice(&bytes);
                Ok(())
            }
            QueuedRequest::WriteZeroes { .. } => Err(libc::EOPNOTSUPP),
            QueuedRequest::Read(_) | QueuedRequest::Flush | QueuedRequest::Discard(_) => Ok(()),
        };
        self.ends.push_back((now.plus(Duration::from_millis(3)), token, result));
    }

    fn poll(&mut self, now: Instant) -> Option<QueuedEnd> {
        let (_, token, result) = self.ends.pop_front_if(|(end, ..)| *end <= now)?;
        Some(QueuedEnd { token, result })
    }

    fn take_read(&mut self, _token: u64, extent: ByteExtent, into: &mut [io::IoSliceMut<'_>]) {
        let mut bytes = &self.bytes[place(extent)];
        for piece in into {
            let (part, rest) = bytes.split_at(piece.len());
            piece.copy_from_slice(part);
            bytes = rest;
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.ends.front().map(|(end, ..)| *end)
    }
}

fn put(fixture: &mut Fixture, device: Box<dyn QueuedDevice>) {
    fixture.driver.media.clear();
    fixture.driver.media.resize_with(2, || None);
    fixture.driver.media[1] = Some(OpenMedium::Queued(device));
    fixture.driver.queued.push(1);
    fixture.driver.unwatched.push(1);
}

#[test]
fn a_queued_device_takes_its_time_and_moves_the_bytes() {
    on_both(|mut fixture| {
        put(&mut fixture, Box::new(Slow { bytes: pattern(65536), ends: VecDeque::new() }));
        let began = fixture.clock.now();
        let outcome = fixture.run(read(4096, Pieces::One(of_pool(0, 4096)), Checksums::Compute));
        assert_eq!(outcome.result, Ok((vec![checksum(&pattern(65536)[4096..8192])], Vec::new())));
        assert!(fixture.clock.now().since(began).as_nanos() >= 3_000_000);
        assert!(fixture.run(write(0, Pieces::One(of_pool(0, 4096)), Durability::Volatile)).result.is_ok());
        let back = fixture.run(read(0, Pieces::One(of_pool(1, 4096)), Checksums::Compute));
        assert_eq!(back.result, outcome.result);
    });
}

#[test]
fn a_queued_device_that_stores_no_zeroes_gets_them_written() {
    on_both(|mut fixture| {
        let size = 20 << 20;
        put(&mut fixture, Box::new(Slow { bytes: pattern(size), ends: VecDeque::new() }));
        let extent = ByteExtent { start: 4096, length: size - 8192 };
        let (device, unmap, durability) = (ORIGIN, Unmap::Allow, Durability::Durable);
        let zeroes = DeviceOperation::WriteZeroes { device, extent, unmap, durability };
        assert!(fixture.run(zeroes).result.is_ok());
        let mut content = |at: u64| {
            let back = fixture.run(read(at, Pieces::One(of_pool(1, 4096)), Checksums::Compute));
            back.result.unwrap().0[0]
        };
        let (zero, last) = (checksum(&[0; 4096]), extent.end());
        assert_eq!([4096, 17 << 20, last - 4096].map(&mut content), [zero; 3]);
        assert_eq!(content(last), checksum(&pattern(size)[usize::try_from(last).unwrap()..]));
    });
}

struct Elsewhere {
    wakeup: Arc<Wakeup>,
    ended: Arc<std::sync::Mutex<VecDeque<u64>>>,
}

impl QueuedDevice for Elsewhere {
    fn submit(&mut self, _now: Instant, token: u64, _request: QueuedRequest<'_>) {
        let (wakeup, ended) = (Arc::clone(&self.wakeup), Arc::clone(&self.ended));
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            ended.lock().unwrap().push_back(token);
            wakeup.ring();
        });
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        self.wakeup.clear();
        let token = self.ended.lock().unwrap().pop_front()?;
        Some(QueuedEnd { token, result: Ok(()) })
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [io::IoSliceMut<'_>]) {
        into.iter_mut().for_each(|piece| piece.fill(9));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(self.wakeup.as_ref()))
    }
}

#[test]
fn a_queued_device_wakes_the_driver_repeatedly() {
    on_both(|mut fixture| {
        let wakeup = Arc::new(Wakeup::new().unwrap());
        put(&mut fixture, Box::new(Elsewhere { wakeup, ended: Arc::default() }));
        for _ in 0..3 {
            let outcome = fixture.run(read(4096, Pieces::One(of_pool(0, 4096)), Checksums::Compute));
            assert_eq!(outcome.result, Ok((vec![checksum(&[9; 4096])], Vec::new())));
        }
    });
}

#[test]
fn a_record_that_failed_is_an_error() {
    let note = || DeviceOperation::NoteOutOfService { incomplete: VolumeSet::default() };
    on_both(|mut fixture| {
        assert_eq!(fixture.run(note()).result, Err(DeviceError::Unsupported), "nobody writes records");
        let mut results = VecDeque::from([true, false, false, true]);
        fixture.driver.keep_notes(Box::new(move |_| results.pop_front().unwrap()));
        for is_kept in [true, false, false, true] {
            assert_eq!(fixture.run(note()).result.is_ok(), is_kept);
        }
        fixture.driver.keep_no_notes();
        assert_eq!(fixture.run(note()).result, Err(DeviceError::Unsupported), "the writer has ended");
    });
}

#[test]
fn records_end_under_their_own_numbers() {
    on_both(|mut fixture| {
        let mut results = VecDeque::from([true, false, true, false]);
        fixture.driver.keep_notes(Box::new(move |_| results.pop_front().unwrap()));
        let note = DeviceOperation::NoteOutOfService { incomplete: VolumeSet::default() };
        let ids: Vec<u64> = (0..4).map(|_| fixture.submit(note.clone())).collect();
        let ends: Vec<_> =
            ids.iter().map(|_| fixture.wait()).map(|end| (end.id, end.result.is_ok())).collect();
        assert_eq!(ends, ids.into_iter().zip([true, false, true, false]).collect::<Vec<_>>());
    });
}

#[test]
fn a_record_without_its_thread_is_an_error() {
    on_both(|mut fixture| {
        let note = || DeviceOperation::NoteOutOfService { incomplete: VolumeSet::default() };
        let (ended, has_ended) = std::sync::mpsc::channel::<()>();
        let mut is_first = true;
        fixture.driver.keep_notes(Box::new(move |_| {
            let _dropped_at_the_end = &ended;
            assert!(std::mem::replace(&mut is_first, false), "the second record ends the thread");
            true
        }));
        assert!(fixture.run(note()).result.is_ok());
        let RecordWriter::Thread(thread) = &fixture.driver.notes else { panic!("no thread") };
        assert!(thread.ask(u32::MAX, VolumeSet::default()));
        assert!(has_ended.recv().is_err());
        assert_eq!(fixture.run(note()).result, Err(DeviceError::Io));
    });
}
