//! A device that takes over, and a stop.

use kickcache_engine::format::takeover::Other;

use super::*;
use crate::serve::cache_takeover::{Pair, TakeoverStep};

#[test]
fn a_stop_does_not_wait_until_it_can_be_noted_that_a_device_has_taken_over() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
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
    let (now, later) = (Instant::from_nanos(5), Instant::from_nanos(2_000_000_005));
    let log = event_loop.superblock.geometry.log();
    event_loop.takeover.mirror = Some(Mirror::new(log, []));
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
