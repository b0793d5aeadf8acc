//! Several queued devices in one driver: each gets what is meant for it, and nothing else.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex};

use kickcache_engine::device::{Checksums, Device, DeviceOperation, Submission, SubmissionId};
use kickcache_engine::mirror::Routed;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::samples::Sample;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{ByteExtent, Checksum, PageIndex, VolumeId};

use super::*;
use crate::driver::budget::Budget;
use crate::driver::io_engine::IoEngine;
use crate::driver::queued_device::{ExtentsTold, QueuedEnd, QueuedRequest};

const FIRST: Device = Device::Origin(VolumeId::new(0));
const SECOND: Device = Device::Origin(VolumeId::new(1));
const NOW: Instant = Instant::ZERO;
const EXTENT: ByteExtent = ByteExtent { start: 0, length: 4096 };

/// The calls of a device, and its requests in flight.
#[derive(Default)]
struct Calls {
    told: Vec<&'static str>,
    in_flight: VecDeque<u64>,
    ended: VecDeque<QueuedEnd>,
}

/// A device that ends its requests when the test says so.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Calls>>);

impl Recorder {
    fn tell(&self, what: &'static str) {
        self.0.lock().unwrap().told.push(what);
    }

    /// The calls since the last look.
    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap().told)
    }

    fn end(&self) {
        let mut calls = self.0.lock().unwrap();
        let token = calls.in_flight.pop_front().unwrap();
        calls.ended.push_back(QueuedEnd { token, result: Ok(()) });
    }
}

impl QueuedDevice for Recorder {
    fn submit(&mut self, _now: Instant, token: u64, request: QueuedRequest<'_>) {
        self.0.lock().unwrap().in_flight.push_back(token);
        self.tell(match request {
            QueuedRequest::Read(_) => "read",
            QueuedRequest::Write { .. } => "write",
            QueuedRequest::Flush => "flush",
            QueuedRequest::Discard(_) => "discard",
            QueuedRequest::WriteZeroes { .. } => "zeroes",
        });
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        self.0.lock().unwrap().ended.pop_front()
    }

    fn give_up(&mut self) {
        self.tell("give up");
    }

    fn begin_compare(&mut self, samples: &[Sample]) {
        assert_eq!(samples.len(), 1);
        self.tell("begin to compare");
    }

    fn end_compare(&mut self) -> Result<(), String> {
        self.tell("end the comparison");
        Err("it differs".into())
    }

    fn expect(&mut self, samples: Vec<Sample>) {
        assert_eq!(samples.len(), 1);
        self.tell("expect");
    }

    fn has_extents(&self) -> bool {
        self.tell("has extents");
        true
    }

    fn ask_extents(&mut self, _token: u64, extent: ByteExtent) {
        assert_eq!(extent, EXTENT);
        self.tell("ask for extents");
    }

    fn take_extents(&mut self) -> Option<ExtentsTold> {
        None
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        into.iter_mut().for_each(|piece| piece.fill(3));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}

/// A driver, and the recorder of each of its devices.
struct Fixture<const N: usize> {
    driver: Driver,
    recorders: [Recorder; N],
}

fn open<const N: usize>(devices: [Device; N]) -> Fixture<N> {
    let recorders = devices.map(|_| Recorder::default());
    let media = devices.iter().zip(&recorders).map(|(device, recorder)| NamedMedium {
        device: *device,
        medium: Medium::Queued(Box::new(recorder.clone())),
    });
    let (budget, media) = (Budget::alone(1 << 20), media.collect());
    let settings = DriverSettings { io_engine: IoEngine::Threads, budget, pool_pages: 8, media };
    Fixture { driver: Driver::open(settings).unwrap(), recorders }
}

fn page(page: u32) -> Pieces {
    Pieces::One(Piece { memory: Memory::Pool { page: PageIndex::new(page), offset: 0 }, length: 4096 })
}

fn read(device: Device) -> DeviceOperation {
    DeviceOperation::Read { device, offset: 0, pieces: page(0), checksums: Checksums::Skip }
}

fn write(device: Device) -> DeviceOperation {
    DeviceOperation::Write { device, offset: 0, pieces: page(0), durability: Durability::Volatile }
}

fn submission(number: u64, operation: DeviceOperation) -> Submission {
    Submission { id: SubmissionId::from_u64(number), operation }
}

/// Takes all completions; returns their numbers.
fn completed(driver: &mut Driver) -> Vec<u64> {
    std::iter::from_fn(|| driver.poll_completion(NOW).map(|completion| completion.id.as_u64())).collect()
}

#[test]
fn questions_and_orders_reach_their_device_alone() {
    let Fixture { mut driver, recorders: [first, second] } = open([FIRST, SECOND]);
    let sample = Sample { block: kickcache_engine::units::BlockIndex::new(0), checksum: Checksum::new(1) };
    driver.begin_compare(SECOND, &[sample]);
    assert_eq!(driver.end_compare(SECOND), Err("it differs".into()));
    driver.expect(SECOND, vec![sample]);
    assert!(driver.has_extents(SECOND));
    driver.ask_extents(SECOND, 7, EXTENT);
    driver.give_up(SECOND);
    let all =
        ["begin to compare", "end the comparison", "expect", "has extents", "ask for extents", "give up"];
    assert_eq!((first.calls(), second.calls()), (Vec::new(), all.to_vec()));
    // Without the device, nothing happens.
    let gone = Device::Origin(VolumeId::new(9));
    driver.give_up(gone);
    assert_eq!((driver.end_compare(gone), driver.has_extents(gone)), (Ok(()), false));
}

/// A takeover waits for the writes of the cache device alone.
#[test]
fn work_in_flight_is_counted_for_each_device() {
    let Fixture { mut driver, recorders: [cache, first] } = open([Device::Cache, FIRST]);
    let zeroes = DeviceOperation::WriteZeroes {
        device: Device::Cache,
        extent: EXTENT,
        unmap: Unmap::Allow,
        durability: Durability::Volatile,
    };
    let discard = DeviceOperation::Discard { device: Device::Cache, extent: EXTENT };
    let flush = DeviceOperation::Flush { device: Device::Cache };
    let operations = [read(Device::Cache), write(Device::Cache), zeroes, discard, flush, write(FIRST)];
    for (number, operation) in (1..).zip(operations) {
        driver.submit(NOW, submission(number, operation));
    }
    let changes = |driver: &Driver, device| {
        driver.changes_in_flight(device).into_iter().map(SubmissionId::as_u64).collect::<Vec<_>>()
    };
    assert_eq!((changes(&driver, Device::Cache), changes(&driver, FIRST)), (vec![2, 3, 4, 5], vec![6]));
    assert!(!driver.is_idle(Device::Cache) && !driver.is_idle(FIRST) && driver.is_idle(SECOND));
    let loads = |driver: &Driver| {
        driver.loads().into_iter().map(|load| (load.device, load.operation_count)).collect::<Vec<_>>()
    };
    assert_eq!(loads(&driver), [(Device::Cache, 5), (FIRST, 1)]);
    (0..5).for_each(|_| cache.end());
    assert_eq!(completed(&mut driver), [1, 2, 3, 4, 5]);
    assert!(driver.is_idle(Device::Cache) && !driver.is_idle(FIRST) && !driver.is_at_rest());
    assert_eq!((changes(&driver, Device::Cache), loads(&driver)), (Vec::new(), vec![(FIRST, 1)]));
    first.end();
    assert_eq!(completed(&mut driver), [6]);
    assert!(driver.is_idle(FIRST) && driver.is_at_rest());
}

#[test]
fn operations_for_the_successor_reach_it_alone() {
    let Fixture { mut driver, recorders: [cache, next, first] } =
        open([Device::Cache, Device::Successor, FIRST]);
    let metadata = |extent| DeviceOperation::ReadMetadata { extent };
    let operations = [
        ("read", read(Device::Cache)),
        ("write", write(Device::Cache)),
        ("flush", DeviceOperation::Flush { device: Device::Cache }),
        ("discard", DeviceOperation::Discard { device: Device::Cache, extent: EXTENT }),
        ("read", metadata(EXTENT)),
    ];
    for side in [Side::Old, Side::New] {
        for (number, (kind, operation)) in (1..).zip(operations.clone()) {
            driver.submit_routed(NOW, Routed { side, submission: submission(number, operation) });
            let expected = if side == Side::Old { [vec![kind], vec![]] } else { [vec![], vec![kind]] };
            assert_eq!([cache.calls(), next.calls()], expected, "{side:?}");
            if side == Side::Old {
                cache.end();
            } else {
                next.end();
            }
            assert_eq!(completed(&mut driver), [number]);
        }
    }
    driver.submit_routed(NOW, Routed { side: Side::Old, submission: submission(9, write(FIRST)) });
    assert_eq!(first.calls(), ["write"]);
    first.end();
    completed(&mut driver);
    // After the takeover, the successor is the cache device.
    drop(driver.take_over());
    driver.submit(NOW, submission(10, write(Device::Cache)));
    assert_eq!([cache.calls(), next.calls()], [vec![], vec!["write"]]);
}

/// A removed device, and another one that is added in its place.
#[test]
fn a_removed_device_gets_no_operations() {
    let Fixture { mut driver, recorders: [first, second] } = open([FIRST, SECOND]);
    drop(driver.remove(FIRST));
    driver.submit(NOW, submission(1, write(FIRST)));
    assert_eq!((first.calls(), completed(&mut driver)), (vec![], vec![1]));
    let other = Recorder::default();
    let medium = Medium::Queued(Box::new(other.clone()));
    driver.add(NamedMedium { device: FIRST, medium });
    driver.submit(NOW, submission(2, write(FIRST)));
    driver.submit(NOW, submission(3, write(SECOND)));
    assert_eq!([first.calls(), other.calls(), second.calls()], [vec![], vec!["write"], vec!["write"]]);
    other.end();
    second.end();
    let mut ended = completed(&mut driver);
    ended.sort_unstable();
    assert_eq!(ended, [2, 3]);
}

#[test]
fn operations_of_the_past_keep_no_place() {
    let Fixture { mut driver, recorders: [cache, first] } = open([Device::Cache, FIRST]);
    for number in 0..100 {
        driver.submit(NOW, submission(number, read(FIRST)));
        first.end();
        driver.submit(NOW, submission(number, DeviceOperation::ReadMetadata { extent: EXTENT }));
        cache.end();
        assert_eq!(completed(&mut driver).len(), 2);
        let id = driver.buffers().allocate_empty();
        assert!(id.get() == 0, "numbers of requests are used again");
        driver.buffers().release(id);
    }
    assert!(driver.is_at_rest() && driver.operations.len() <= 3, "{}", driver.operations.len());
}
