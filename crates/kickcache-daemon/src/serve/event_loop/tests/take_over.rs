//! A device that takes over, and a stop.

use kickcache_engine::format::takeover::Other;

use super::*;
use crate::serve::cache_takeover::{Pair, TakeoverStep};

/// A loop with a complete copy of its cache device on another one.
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
    let called = Other { uuid: [3; 16], path: "/new".into() };
    event_loop.takeover.pair = Some(Pair { old, new, called });
    let log = event_loop.superblock.geometry.log();
    event_loop.takeover.mirror = Some(Mirror::new(log, []));
    event_loop
}

#[test]
fn a_stop_does_not_wait_for_a_takeover_record() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = copied_loop(&directory);
    let (now, later) = (Instant::from_nanos(5), Instant::from_nanos(2_000_000_005));
    // A try fails, and is counted; while it is served, there is another one later.
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
    for what in ["went", "came"] {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut event_loop = copied_loop(&directory);
        let pair = event_loop.takeover.pair.clone().unwrap();
        std::fs::rename(pair.new.path(), directory.path().join("elsewhere")).unwrap();
        if what == "came" {
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
