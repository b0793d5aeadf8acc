//! A device that takes over from the cache device.

use std::path::PathBuf;

use kickcache_engine::device::{DeviceError, DeviceOperation, Submission, SubmissionId};
use kickcache_engine::format::takeover::{OtherDevice, Takeover};
use kickcache_engine::mirror::Mirror;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::ByteExtent;

use super::*;
use crate::devices::missed_device::any_superblock_at;
use crate::devices::origin_records::OriginRecords;
use crate::devices::state::{CacheRecord, StateStore, uuid_text};
use crate::log::logged::logged;
use crate::serve::event_loop::cache_takeover::{Pair, TakeoverOutcome, TakeoverStep};

/// A loop with a cache device, a device that is to take over, and a mirror.
fn copied_loop(directory: &tempfile::TempDir) -> EventLoop<PassThrough> {
    let [origin, old, new] = ["origin", "old", "new"].map(|name| directory.path().join(name));
    for path in [&origin, &old, &new] {
        std::fs::write(path, vec![0; 8 << 20]).unwrap();
    }
    let (_control, receiver) = mpsc::channel();
    let wakeup = Arc::new(Wakeup::new().unwrap());
    let socket = directory.path().join("socket");
    let mut event_loop = toy_loop(&origin, &socket, IoEngine::Threads, Limits::default(), receiver, wakeup);
    let open = |path, access| Arc::new(BlockFile::open(path, access, Emptiness::Refused).unwrap());
    let (old, new) = (open(&old, AccessMode::ReadOnly), open(&new, AccessMode::ReadWrite));
    let called = OtherDevice { uuid: [3; 16], path: "/new".into() };
    event_loop.takeover.pair = Some(Pair { old, new, called });
    let log = event_loop.superblock.geometry.log();
    event_loop.core.mirror = Some(Mirror::new(log, []));
    event_loop
}

#[test]
fn a_stop_does_not_wait_for_a_takeover_record() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = copied_loop(&directory);
    let (now, later) = (Instant::from_nanos(5), Instant::from_nanos(2_000_000_005));
    event_loop.takeover.step = Some(TakeoverStep::Sealed(now));
    event_loop.advance_takeover(now);
    while event_loop.takeover.is_busy() {
        event_loop.advance_takeover(now);
    }
    let errors = event_loop.trouble_of(now, Device::Cache).errors.unwrap();
    assert_eq!((errors.count, errors.last.operation), (1, "replace"));
    assert_eq!(event_loop.takeover.step, Some(TakeoverStep::Sealed(later)));
    assert!(event_loop.is_storing_superblock());
    event_loop.begin_stop(now, "a test says so");
    event_loop.advance_takeover(now);
    assert_eq!(event_loop.takeover.step, Some(TakeoverStep::Unnoted));
    assert!(!event_loop.is_storing_superblock(), "a stop would wait");
    assert!(event_loop.takeover.is_unnoted(), "the superblock is not to be written by the stop");
    assert_eq!(event_loop.takeover.poll_timeout(now), None);
}

fn at(second: u64) -> Instant {
    Instant::from_nanos(second * 1_000_000_000)
}

#[test]
fn a_stop_does_not_wait_for_a_hanging_superblock_write() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = copied_loop(&directory);
    event_loop.takeover.step = Some(TakeoverStep::Sealed(at(1)));
    event_loop.takeover.hang();
    for second in 2..20 {
        event_loop.advance_takeover(at(second));
        assert!(event_loop.is_storing_superblock(), "while it is served, it is waited for");
    }
    event_loop.begin_stop(at(20), "a test says so");
    for second in 20..30 {
        assert!(event_loop.is_storing_superblock());
        assert!(event_loop.takeover.poll_timeout(at(second)).is_none_or(|due| due <= at(second + 1)));
        event_loop.advance_takeover(at(second));
    }
    assert!(!event_loop.is_storing_superblock() && event_loop.takeover.is_unnoted());
}

#[test]
fn a_part_that_is_never_copied_ends_the_replacement() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = copied_loop(&directory);
    event_loop.takeover.step = Some(TakeoverStep::Copying(at(1)));
    event_loop.takeover.hang();
    for second in 1..=60 {
        event_loop.desert_silent_successor(at(second));
        assert!(matches!(event_loop.takeover.step, Some(TakeoverStep::Copying(_))), "{second}");
    }
    event_loop.desert_silent_successor(at(61));
    assert!(matches!(event_loop.takeover.step, Some(TakeoverStep::GivenUp(_))));
    let why = event_loop.takeover.failure.clone().unwrap();
    assert!(why.contains("has not been copied") && why.contains("for 60 s"), "{why}");
}

#[test]
fn a_device_removed_from_its_path_does_not_take_over() {
    for what in ["was removed", "another file"] {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut event_loop = copied_loop(&directory);
        let pair = event_loop.takeover.pair.clone().unwrap();
        std::fs::rename(pair.new.path(), directory.path().join("elsewhere")).unwrap();
        if what == "another file" {
            std::fs::write(pair.new.path(), [0; 8]).unwrap();
        }
        event_loop.takeover.step = Some(TakeoverStep::Flushing);
        event_loop.takeover.flush(pair).unwrap();
        while event_loop.takeover.is_busy() {
            event_loop.advance_takeover(at(1));
        }
        let why = event_loop.takeover.failure.clone().unwrap();
        assert!(why.contains(what) && why.contains("does not take over"), "{why}");
        let step = event_loop.takeover.step;
        assert!(matches!(step, Some(TakeoverStep::GivenUp(_) | TakeoverStep::Forgetting)), "{step:?}");
    }
}

/// A loop that is to record that one device has taken over from another, and its state directory.
struct Sealed {
    event_loop: EventLoop<PassThrough>,
    store: StateStore,
    old: PathBuf,
    new: PathBuf,
    directory: tempfile::TempDir,
}

impl Sealed {
    /// Opens the old and the new device with these access modes.
    fn new(access: [AccessMode; 2]) -> Sealed {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut event_loop = copied_loop(&directory);
        let [old, new, state] = ["old", "new", "state"].map(|name| directory.path().join(name));
        let open = |path: &Path, access| Arc::new(BlockFile::open(path, access, Emptiness::Refused).unwrap());
        // The earlier pair is dropped first, as it holds locks.
        event_loop.takeover.pair = None;
        let called = OtherDevice { uuid: [3; 16], path: new.display().to_string() };
        let pair = Pair { old: open(&old, access[0]), new: open(&new, access[1]), called };
        event_loop.takeover.pair = Some(pair);
        let (place, store) = (StatePlace::Directory(state.clone()), StateStore::new(&state));
        let notes = OriginRecords::begin(&place, (&event_loop.superblock, &old), &[]).unwrap();
        event_loop.notes = Some(Arc::new(notes));
        let mut mirror = Mirror::new(ByteExtent { start: 0, length: 0 }, []);
        mirror.seal();
        event_loop.core.mirror = Some(mirror);
        event_loop.takeover.step = Some(TakeoverStep::Sealed(at(1)));
        event_loop.advance_takeover(at(1));
        Sealed { event_loop, store, old, new, directory }
    }

    fn outcome(&mut self) -> TakeoverOutcome {
        for _ in 0..5_000 {
            if let Some(outcome) = self.event_loop.takeover.poll() {
                return outcome;
            }
            std::thread::sleep(Span::from_millis(2));
        }
        panic!("no thread ends");
    }

    fn end_notes(&mut self) -> TakeoverStep {
        let TakeoverOutcome::Noted(noted) = self.outcome() else { panic!("it writes no superblocks") };
        self.event_loop.end_notes(at(1), noted);
        self.event_loop.takeover.step.unwrap()
    }

    /// `look` is called before the next step.
    fn end_record(&mut self, look: impl Fn(&Sealed)) -> TakeoverStep {
        let TakeoverOutcome::Recorded(superblock, recorded) = self.outcome() else { panic!("no record") };
        look(self);
        self.event_loop.end_record(at(1), *superblock, recorded);
        self.event_loop.takeover.step.unwrap()
    }

    fn flush(&mut self, result: Result<(), DeviceError>) {
        let mirror = self.event_loop.core.mirror.as_mut().unwrap();
        let operation = DeviceOperation::Flush { device: Device::Cache };
        mirror.handle_submission(Submission { id: SubmissionId::from_u64(1), operation });
        let sent: Vec<_> = std::iter::from_fn(|| mirror.poll_submission()).collect();
        assert_eq!(sent.len(), 2, "the old device is not part of it any more");
        for routed in sent {
            mirror.handle_end(routed.submission.id, result);
        }
    }

    fn record(&self) -> (PathBuf, u64) {
        let uuid = uuid_text(self.event_loop.superblock.uuid);
        let CacheRecord { path, starts, .. } = self.store.cache(&uuid).unwrap().unwrap();
        (path, starts)
    }
}

const WRITABLE: AccessMode = AccessMode::ReadWrite;
const UNWRITABLE: AccessMode = AccessMode::ReadOnly;
/// A step that is tried again.
const LATER: TakeoverStep = TakeoverStep::Sealed(Instant::from_nanos(3_000_000_000));

#[test]
fn superblocks_then_the_record_are_durable_before_the_switch() {
    let mut sealed = Sealed::new([WRITABLE, WRITABLE]);
    let starts = sealed.event_loop.superblock.starts;
    assert_eq!(sealed.record(), (sealed.old.clone(), starts));
    assert_eq!(sealed.end_notes(), TakeoverStep::Recording);
    let found = [&sealed.old, &sealed.new].map(|path| any_superblock_at(path).unwrap());
    assert!(matches!(found[0].takeover, Takeover::Replaced(_)), "{:?}", found[0].takeover);
    assert_eq!((&found[1].takeover, found[1].starts), (&Takeover::None, starts + 1));
    sealed.flush(Ok(()));
    let step = sealed.end_record(|sealed| assert_eq!(sealed.record(), (sealed.new.clone(), starts + 1)));
    assert_eq!((step, sealed.event_loop.superblock.starts), (TakeoverStep::Parting, starts + 1));
}

#[test]
fn no_record_precedes_the_writes_of_both_superblocks() {
    for access in [[UNWRITABLE, WRITABLE], [WRITABLE, UNWRITABLE]] {
        let mut sealed = Sealed::new(access);
        let before = sealed.record();
        assert_eq!((sealed.end_notes(), sealed.record()), (LATER, before));
        sealed.flush(Ok(()));
    }
}

#[test]
fn a_failure_during_superblock_writes_repeats_them() {
    let mut sealed = Sealed::new([WRITABLE, WRITABLE]);
    let before = sealed.record();
    sealed.flush(Err(DeviceError::Io));
    assert_eq!((sealed.end_notes(), sealed.record()), (LATER, before));
    sealed.flush(Ok(()));
}

#[test]
fn a_failure_during_the_record_repeats_the_superblocks() {
    let mut sealed = Sealed::new([WRITABLE, WRITABLE]);
    let starts = sealed.event_loop.superblock.starts;
    assert_eq!(sealed.end_notes(), TakeoverStep::Recording);
    sealed.flush(Err(DeviceError::Io));
    assert_eq!((sealed.end_record(|_| {}), sealed.event_loop.superblock.starts), (LATER, starts));
    sealed.flush(Ok(()));
}

#[test]
fn counted_errors_are_logged_under_the_replaced_device() {
    let mut sealed = Sealed::new([WRITABLE, WRITABLE]);
    assert_eq!(sealed.end_notes(), TakeoverStep::Recording);
    assert_eq!(sealed.end_record(|_| {}), TakeoverStep::Parting);
    let directory = sealed.directory.path().to_owned();
    for (device, name) in [(Device::Cache, "replaced"), (Device::Successor, "next")] {
        let path = directory.join(name);
        std::fs::write(&path, vec![0; 8 << 20]).unwrap();
        let file = BlockFile::open(&path, WRITABLE, Emptiness::Refused).unwrap();
        sealed.event_loop.core.driver.add(NamedMedium { device, medium: Medium::File(file) });
    }
    let cause = Cause::Errno(libc::EIO);
    let fault = Fault { device: Device::Cache, operation: "read", offset: 0, length: 4096, cause };
    sealed.event_loop.troubles.note(at(1), fault);
    sealed.event_loop.troubles.note(at(1), fault);
    let log = logged(|| sealed.event_loop.advance_takeover(at(2)));
    let counted = log.lines().find(|line| line.contains("device_error")).expect(&log);
    let names = ["replaced", "next"].map(|name| counted.contains(&*directory.join(name).to_string_lossy()));
    assert_eq!(names, [true, false], "{counted}");
    assert!(sealed.event_loop.troubles.tally(Device::Cache).is_none());
    assert!(sealed.event_loop.takeover.is_done);
}

#[test]
fn a_growth_ends_with_a_device_out_of_service() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    assert!(event_loop.end_of_growth(CacheHealth::Good).is_none());
    let error = event_loop.end_of_growth(CacheHealth::OutOfService).unwrap();
    assert!(error.to_string().contains("out of service"), "{error}");
    let log = logged(|| event_loop.give_up_growth(&error));
    assert!(log.contains("cache_growth_failed") && log.contains("out of service"), "{log}");
    event_loop.begin_stop(at(1), "a test says so");
    assert!(matches!(event_loop.end_of_growth(CacheHealth::Good), Some(ServeError::Stopped)));
}
