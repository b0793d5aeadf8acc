//! A cache device is left out, or a volume is removed, once the engine has what that needs.

use kickcache_engine::device::{Completion, Submission};
use kickcache_engine::engine::Phase;
use kickcache_engine::request::{Reply, Request};
use kickcache_engine::stats::{CacheHealth, Record};

use super::*;
use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::verbs::exchange::{ExchangeVerbs, StepState};
use crate::serve::verbs::membership::{LeavingVolume, MembershipVerbs, Quiescence};

/// An engine in a state that the test sets, and its orders.
struct StatedEngine {
    not_clean: u64,
    is_idle: bool,
    has_ended: bool,
    record: Option<Record>,
    orders: Vec<&'static str>,
}

impl CacheEngine for StatedEngine {
    fn phase(&self) -> Phase {
        Phase::Running
    }

    fn handle_request(&mut self, _now: Instant, _request: Request<'_>) {}

    fn handle_completion(&mut self, _now: Instant, _completion: Completion<'_>) {}

    fn poll_submission(&mut self) -> Option<Submission> {
        None
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        None
    }

    fn stop(&mut self, _now: Instant) {}

    fn not_clean_blocks(&self, volume: VolumeId) -> u64 {
        if volume == VOLUME { self.not_clean } else { 0 }
    }

    fn is_idle(&self, _volume: VolumeId) -> bool {
        self.is_idle
    }

    fn has_ended(&self, _volume: VolumeId) -> bool {
        self.has_ended
    }

    fn drain(&mut self, _now: Instant, _volume: VolumeId) {
        self.orders.push("drain");
    }

    fn flush_soon(&mut self, _now: Instant, _volume: VolumeId) {
        self.orders.push("flush");
    }

    fn leave_out(&mut self, _now: Instant) {
        self.orders.push("leave out");
    }

    fn health(&self) -> CacheHealth {
        CacheHealth::Good
    }

    fn record(&self) -> Option<Record> {
        self.record
    }
}

const VOLUME: VolumeId = VolumeId::new(0);
const NOW: Instant = Instant::from_nanos(1);

/// A loop with its volume on the cache device, with this state of the engine.
fn event_loop(directory: &Path, not_clean: u64, is_idle: bool, has_ended: bool) -> EventLoop<StatedEngine> {
    let (origin, socket) = (directory.join("origin"), directory.join("s"));
    std::fs::write(&origin, vec![1; 8 << 20]).unwrap();
    let (_, receiver) = mpsc::channel();
    let (wakeup, limits) = (Arc::new(Wakeup::new().unwrap()), Limits::default());
    let engine = StatedEngine { not_clean, is_idle, has_ended, record: None, orders: Vec::new() };
    let mut event_loop = loop_of(engine, &origin, &socket, IoEngine::Threads, limits, receiver, wakeup);
    event_loop.superblock.add_volume("toy", 8 << 20, "file:/toy").unwrap();
    event_loop
}

/// The orders to an engine that is waited for; `None` if the next step may begin.
type Waits = Option<&'static [&'static str]>;

/// Blocks that are not clean, whether the volume is idle, whether its requests have ended, and the wait if blocks are
/// written back, and if they may be lost.
const CASES: [(u64, bool, bool, Waits, Waits); 6] = [
    (0, true, true, None, None),
    (3, true, true, Some(&["drain", "flush"]), None),
    (0, false, true, Some(&["drain", "flush"]), None),
    (3, false, true, Some(&["drain", "flush"]), None),
    (0, true, false, None, Some(&[])),
    (3, false, false, Some(&["drain", "flush"]), Some(&[])),
];

#[test]
fn a_device_is_left_out_when_origins_have_all_data() {
    for (not_clean, is_idle, has_ended, written_back, abandoned) in CASES {
        for (fate, waits) in [(DirtyFate::WrittenBack, written_back), (DirtyFate::Abandoned, abandoned)] {
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let mut event_loop = event_loop(directory.path(), not_clean, is_idle, has_ended);
            let unheld = event_loop.leave_out_if_quiet(NOW, fate);
            assert!(matches!(unheld, Err(ServeError::Stopped)), "requests are not held back");
            event_loop.hold_requests(NOW);
            let step = event_loop.leave_out_if_quiet(NOW, fate).unwrap();
            let orders = event_loop.core.engine.orders.as_slice();
            let what = format!("{not_clean} {is_idle} {has_ended} {fate:?}");
            match waits {
                None => assert_eq!((step, orders), (StepState::Done, &["leave out"][..]), "{what}"),
                Some(waits) => assert_eq!((step, orders), (StepState::Waiting, waits), "{what}"),
            }
            event_loop.begin_stop(NOW, "a test says so");
            assert!(event_loop.leave_out_if_quiet(NOW, fate).is_err(), "{what}: a stop is not held up");
        }
    }
}

#[test]
fn requests_bypass_a_device_when_its_record_is_durable() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = event_loop(directory.path(), 0, true, true);
    assert!(event_loop.check_left_out().is_err(), "requests are not held back");
    event_loop.hold_requests(NOW);
    for record in [Record::OnDevice, Record::WithHost, Record::ByOrder] {
        event_loop.core.engine.record = Some(record);
        assert_eq!(event_loop.check_left_out().unwrap(), StepState::Done);
    }
    event_loop.core.engine.record = Some(Record::Pending);
    assert_eq!(event_loop.check_left_out().unwrap(), StepState::Waiting);
    event_loop.core.engine.record = Some(Record::Failed);
    let failed = event_loop.check_left_out().unwrap_err().to_string();
    assert!(failed.contains("can be recorded neither"), "{failed}");
}

#[test]
fn a_volume_is_removed_when_its_origin_has_all_data() {
    for (not_clean, is_idle, has_ended, written_back, abandoned) in CASES {
        for (fate, waits) in [(DirtyFate::WrittenBack, written_back), (DirtyFate::Abandoned, abandoned)] {
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let mut event_loop = event_loop(directory.path(), not_clean, is_idle, has_ended);
            assert!(event_loop.quiesce(NOW, fate).is_err(), "no volume is being removed");
            event_loop.leaving = Some(LeavingVolume { id: VOLUME, index: 0 });
            let found = event_loop.quiesce(NOW, fate).unwrap();
            let is_idle = if fate == DirtyFate::WrittenBack { is_idle } else { has_ended };
            let expected = Quiescence { have_ended: true, not_clean, is_idle };
            assert_eq!((found, found.is_reached(fate)), (expected, waits.is_none()), "{fate:?}");
            // Its flush is wanted soon even if its blocks may be lost.
            let orders = waits.map_or(&[][..], |waits| if waits.is_empty() { &["flush"] } else { waits });
            assert_eq!(event_loop.core.engine.orders, orders, "{fate:?}");
            event_loop.begin_stop(NOW, "a test says so");
            assert!(event_loop.quiesce(NOW, fate).is_err(), "{fate:?}: a stop is not held up");
        }
    }
}
