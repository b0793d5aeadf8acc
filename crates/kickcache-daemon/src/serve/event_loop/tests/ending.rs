//! The last steps of a stop.

use super::*;
use crate::log::logged::logged;

/// A stopped loop whose clients have their replies; its end is due.
fn stopped_loop(directory: &Path) -> EventLoop<PassThrough> {
    let mut event_loop = loop_without_clients(directory);
    event_loop.core.stage = LoopPhase::Goodbye(Instant::ZERO);
    event_loop
}

#[test]
fn a_stop_ends_with_its_last_record() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = stopped_loop(directory.path());
    let state = StatePlace::Directory(directory.path().join("state"));
    let notes = OriginRecords::begin(&state, (&event_loop.superblock, "cache".as_ref()), &[]).unwrap();
    let notes = Arc::new(notes);
    for _ in 0..3 {
        event_loop.note_queue.add(&notes, QueuedRecord::Newest { newest: Vec::new(), known: Vec::new() });
    }
    let now = Instant::from_nanos(1);
    let mut turns = 0;
    while !event_loop.advance_stage(now) {
        turns += 1;
        assert!(turns < 5_000, "no record ends");
        std::thread::sleep(Span::from_millis(2));
        event_loop.take_controls(now);
    }
    assert!(event_loop.note_queue.is_empty(), "records are not written");
}

#[test]
fn a_stop_without_records_ends_at_once() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = stopped_loop(directory.path());
    let log = logged(|| assert!(event_loop.advance_stage(Instant::from_nanos(1))));
    assert!(log.contains("all acknowledged writes are on the cache device or the origin"), "{log}");
}
