//! Flushes of the cache device and of origins: for requests, and due by themselves.
//!
//! Invariants:
//! * I-2: the data that a flush covers is durable in the log, or at the origin.

use crate::cache::slots::SlotState;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::ids::RequestSlot;
use crate::inflight::origin_flush::Covered;
use crate::inflight::purpose::Purpose;
use crate::order::{DurableWaiter, Need};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant};
use crate::units::VolumeId;

/// Blocks of a busy volume can wait this many times as long for a short flush.
const PATIENCE: u64 = 15;

pub(crate) fn begin(state: &mut State, slot: RequestSlot) {
    let volume = state.requests.get(slot).volume;
    state.requests.add_pending(slot);
    if state.device.is_out_of_service() {
        if state.cache.volume(volume).dirty > 0 {
            // Acknowledged data may be only on a device where it cannot be made durable any more.
            state.requests.get_mut(slot).fail(Errno::Io);
        }
    } else if !state.device.order.is_flushed() && !mutant!(FlushSkipsCacheDevice) {
        state.requests.add_pending(slot);
        state.device.order.wait(Need::NextFlush, DurableWaiter::Flush(slot));
    }
    if state.volumes.get_mut(volume).flush.take_unreported() {
        // Acknowledged data may be lost, and no flush request has reported this to a client yet.
        state.requests.get_mut(slot).fail(Errno::Io);
    }
    if needs_origin(state, volume) {
        state.requests.add_pending(slot);
        state.volumes.get_mut(volume).flush.wait(slot);
    }
    state.end_pending(slot);
}

/// Whether a client's flush must wait for the origin's.
fn needs_origin(state: &State, volume: VolumeId) -> bool {
    let flush = &state.volumes.get(volume).flush;
    let is_alone = state.device.is_out_of_service() && flush.is_unsettled() && !mutant!(FlushWithoutOrigin);
    (flush.owes_clients() || is_alone) && !mutant!(FlushSkipsOrigin)
}

pub(crate) fn submit_due(state: &mut State) {
    if state.device.order.begin_flush() {
        state.submit(Purpose::CacheFlush, DeviceOperation::Flush { device: Device::Cache });
    }
    for volume in state.volumes.ids() {
        if state.volumes.get(volume).flush.may_begin() {
            submit_due_of(state, volume);
        }
    }
}

/// Not inlined, because each hit calls the caller.
#[inline(never)]
fn submit_due_of(state: &mut State, volume: VolumeId) {
    let now = state.now;
    let found = state.volumes.get(volume);
    if now < found.flush_backoff_until && !found.flush.is_awaited() {
        return;
    }
    let is_out = state.device.is_out_of_service();
    let counts = *state.cache.volume(volume);
    let is_drained = counts.dirty == 0;
    let is_old = due_at(state, volume).is_some_and(|at| now >= at);
    let is_full = found.flush.gathered() >= state.unflushed_max();
    let found = state.volumes.get_mut(volume);
    let is_in_the_way = found.drain_end.has_begun()
        && (counts.unflushed >= 2 * counts.dirty || counts.unflushed > 0 && found.flush.is_at_limit());
    if is_old || is_full || found.draining && (is_drained || is_in_the_way) {
        found.flush.want();
    }
    let covered = if is_out && is_drained { Covered::Everything } else { Covered::Something };
    if found.flush.begin(now, covered) {
        let operation = DeviceOperation::Flush { device: Device::Origin(volume) };
        state.submit(Purpose::OriginFlush { volume }, operation);
    }
}

/// The time of the origin's flush without a request.
pub(crate) fn due_at(state: &State, volume: VolumeId) -> Option<Instant> {
    let after = state.settings.origin_flush_after;
    let found = state.volumes.get(volume);
    let since = found.flush.due()?;
    let at = since.plus(after);
    let at_last = since.plus(Duration::from_nanos(after.as_nanos().saturating_mul(PATIENCE)));
    let is_out = state.device.is_out_of_service();
    let is_wanted = found.flush.gathered() > 0 && found.flush.is_short();
    let at_idle = at.max(found.idle_at());
    let at = if is_out || is_wanted && found.flush.has_much() {
        at
    } else if is_wanted {
        at_idle.min(at_last)
    } else {
        at_idle
    };
    Some(at.max(found.flush_backoff_until))
}

/// The flush of an origin ended: the blocks that it covers are no longer unflushed (I-3).
pub(crate) fn on_origin_flush(state: &mut State, volume: VolumeId, result: Result<(), DeviceError>) {
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    let ended = match result {
        Ok(()) => found.flush.end(now),
        Err(_) => found.flush.fail(now),
    };
    found.counters.origin_errors += u64::from(result.is_err());
    if result.is_err() {
        state.apply_again(volume);
        state.requests.let_go(volume);
        let found = state.volumes.get_mut(volume);
        // Without a pause, the blocks would be written and flushed again as fast as the origin refuses.
        found.rest_after_origin_error(now);
    }
    let is_flushed = result.is_ok() || mutant!(OriginFlushErrorIgnored);
    let state_now = if is_flushed { SlotState::Clean } else { SlotState::Dirty };
    for copy in ended.blocks {
        state.end_unflushed(copy, state_now);
    }
    state.await_old_records();
    if state.device.is_clean_untold() {
        state.agenda.push_back(Task::Checkpoint);
    }
    let afterwards = state.volumes.get_mut(volume).flush.take_afterwards();
    state.agenda.extend(afterwards);
    for waiter in ended.waiters {
        state.end_pending_with(waiter, result.map_err(|_| Errno::Io));
    }
    let counts = *state.cache.volume(volume);
    if counts.not_clean() == 0 {
        state.end_drain_when_durable(volume);
        let covered = state.volumes.get(volume).flush.covered();
        if result.is_ok() || mutant!(CompleteAfterFailedFlush) {
            state.review_complete(volume, covered);
        }
    }
    state.agenda.push_back(Task::Reclaim);
    state.agenda.push_back(Task::Writeback(volume));
}

/// The server of an origin was lost, and may have lost unflushed data: unflushed blocks become dirty again.
pub(crate) fn on_origin_restart(state: &mut State, volume: VolumeId) {
    if mutant!(RestartForgotten) {
        let now = state.now;
        let blocks = state.volumes.get_mut(volume).flush.restart();
        blocks.into_iter().for_each(|copy| state.volumes.get_mut(volume).flush.add(copy, now));
        return;
    }
    state.apply_again(volume);
    state.write_again(volume);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::*;
    use crate::config::{Mode, OriginKind};
    use crate::request::{Durability, Operation, Unmap};
    use crate::scene::Scene;
    use crate::time::Duration;

    /// The origin may have reported the error of the volatile write.
    #[test]
    fn a_failed_durable_write_fails_the_next_flush() {
        for is_writeback in [true, false] {
            let mut scene = Scene::new(Mode::WriteBack);
            (0..40).for_each(|number| scene.write(number * 100 * 4096, 4096).0.unwrap());
            scene.flush().0.unwrap();
            let volume = VolumeId::new(0);
            scene.settings(volume).mode = Mode::WriteAround;
            scene.write(4096, 4096).0.unwrap();
            if is_writeback {
                scene.hold("origin flush");
                scene.fail_times(1, "origin write 2867200", DeviceError::Io);
                scene.settings(volume).idle_after = Duration::from_millis(1);
                let seen = scene.pass(Duration::from_millis(10));
                assert!(seen.contains(&"origin write 2867200+4096, durable".into()), "{seen:?}");
                scene.end_held();
            } else {
                scene.fail_times(1, "origin write", DeviceError::Io);
                assert_eq!(scene.ask(Operation::Write(Durability::Durable), 8192, 4096).0, Err(Errno::Io));
            }
            assert_eq!(scene.flush().0, Err(Errno::Io), "{is_writeback}");
            assert_eq!(scene.flush().0, Ok(()), "{is_writeback}");
        }
    }

    #[test]
    fn a_flush_goes_to_the_devices_with_written_data() {
        let cases: [(Mode, &[&str]); 3] = [
            (Mode::WriteThrough, &["cache flush", "origin flush"]),
            (Mode::WriteBack, &["cache flush"]),
            (Mode::Bypass, &["origin flush"]),
        ];
        for (mode, flushes) in cases {
            let mut scene = Scene::new(mode);
            assert_eq!(scene.flush(), (Ok(()), Vec::new()), "no block was written");
            scene.write(8192, 4096).0.unwrap();
            let (result, seen) = scene.flush();
            assert_eq!(
                (result, seen.iter().map(String::as_str).collect::<Vec<_>>()),
                (Ok(()), flushes.to_vec())
            );
            assert_eq!(scene.flush(), (Ok(()), Vec::new()), "all of it is flushed");
        }
    }

    #[test]
    fn a_refused_origin_flush_is_reported() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("origin flush", DeviceError::Io);
        assert_eq!(scene.flush().0, Err(Errno::Io));
    }

    /// A volume in write-back with a block that was written back and is not flushed: the origin's flush is in flight.
    fn unflushed() -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        assert_eq!(scene.drain().last().unwrap(), "origin flush");
        scene
    }

    #[test]
    fn a_drain_ends_when_its_records_are_durable() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let is_draining = |scene: &Scene| scene.engine.status().volumes[0].is_draining;
        scene.hold("origin flush");
        scene.drain();
        assert_eq!((scene.not_clean(), is_draining(&scene)), ((0, 1), true));
        assert_eq!(scene.end_held_and_hold("cache flush"), ["cache log 0", "cache flush"]);
        assert_eq!((scene.not_clean(), is_draining(&scene)), ((0, 0), true), "a kill would make it dirty");
        scene.end_held();
        assert!(!is_draining(&scene));
        assert_eq!((scene.drain(), is_draining(&scene)), (Vec::new(), false));
    }

    #[test]
    fn a_drain_with_a_full_journal_ends_with_a_checkpoint() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let told = |scene: &Scene| {
            let status = scene.engine.status();
            (status.volumes[0].is_draining, status.counters.checkpoints)
        };
        scene.hold("origin flush");
        scene.drain();
        scene.engine.state.device.journal.fill();
        let before = scene.engine.status().counters.journal_records;
        scene.end_held_and_hold("cache flush");
        assert_eq!((scene.not_clean(), told(&scene)), ((0, 0), (true, 0)), "a kill would make it dirty");
        assert_eq!(scene.engine.status().counters.journal_records, before);
        scene.end_held();
        assert_eq!(told(&scene), (false, 1));
        assert!(!scene.engine.state.device.is_clean_untold());
    }

    #[test]
    fn clean_blocks_are_recorded_once_after_a_delay() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.settings(VolumeId::new(0)).idle_after = Duration::from_millis(500);
        scene.write(8192, 4096).0.unwrap();
        let records = |seen: &[String]| seen.iter().filter(|line| *line == "cache log 0").count();
        let flushed = scene.pass(Duration::from_millis(4_000));
        assert!(flushed.contains(&"origin flush".into()) && records(&flushed) == 0, "{flushed:?}");
        assert_eq!(scene.pass(Duration::from_millis(6_000)), ["cache log 0", "cache flush"]);
        assert_eq!(scene.pass(Duration::from_millis(600_000)), Vec::<String>::new(), "once");
    }

    #[test]
    fn a_client_flush_skips_an_origin_without_its_writes() {
        let mut scene = unflushed();
        scene.write(16384, 4096).0.unwrap();
        let is_asked = |(result, seen): (_, Vec<String>)| (result, seen.contains(&"origin flush".into()));
        assert_eq!(is_asked(scene.flush()), (Ok(()), false), "one is in flight, and held");
        scene.end_held();
        scene.fail("origin flush", DeviceError::Io);
        for _ in 0..3 {
            scene.write(24576, 4096).0.unwrap();
            let seen = [scene.drain(), scene.drain()].concat();
            assert!(seen.contains(&"origin flush".into()), "it is tried again: {seen:?}");
            scene.write(32768, 4096).0.unwrap();
            assert_eq!(is_asked(scene.flush()), (Ok(()), false), "the last one failed");
        }
        scene.heal();
        assert_eq!(is_asked(scene.flush()), (Ok(()), false), "no data was lost meanwhile");
    }

    #[test]
    fn an_origin_is_flushed_despite_a_failed_block() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("cache flush", DeviceError::Io);
        assert_eq!(scene.flush().0, Err(Errno::Io));
        (0..2).for_each(|number| scene.write(16384 + number * 4096, 4096).0.unwrap());
        let seen = scene.pass(Duration::from_millis(10_000));
        assert!(seen.contains(&"origin flush".into()), "{seen:?}");
        assert_eq!(scene.not_clean(), (1, 0));
    }

    #[test]
    fn out_of_service_a_client_flush_waits_for_writeback() {
        let mut scene = unflushed();
        scene.engine.state.take_out_of_service();
        scene.begin(Operation::Flush, 0, 0);
        assert_eq!(scene.take_reply(), None);
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Ok(())));
    }

    #[test]
    fn writes_durable_on_completion_need_no_flush() {
        for (origin, expected) in [(OriginKind::Remote, None), (OriginKind::Local, Some("origin flush"))] {
            for operation in [
                Operation::Write(Durability::Volatile),
                Operation::WriteZeroes { unmap: Unmap::Allow, durability: Durability::Volatile },
                Operation::Discard,
            ] {
                let mut scene = Scene::with_origin(origin, Mode::WriteAround);
                scene.ask(operation, 8192, 4096).0.unwrap();
                let seen = scene.flush().1;
                let last = seen.last().map(String::as_str).filter(|line| line.starts_with("origin"));
                assert_eq!(last, expected, "{origin:?}, {operation:?}");
            }
        }
    }

    #[test]
    fn reclaim_requests_no_flush_in_each_pass() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            let all: Vec<_> = scene.engine.state.cache.segments().iter().map(|(index, _)| index).collect();
            scene.engine.state.hurry_writeback(&all);
            seen.extend(scene.write(1 << 20, 4096).1);
            seen.extend(scene.pass(Duration::from_millis(1)));
        }
        let count = |begin| seen.iter().filter(|line| line.starts_with(begin)).count();
        assert!(count("origin write") > 50, "{seen:?}");
        assert!(count("origin flush") * 8 <= count("origin write"), "{seen:?}");
    }

    #[test]
    fn a_busy_volume_flushes_few_writes_late() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.settings(VolumeId::new(0)).idle_after = Duration::from_millis(500);
        scene.write(8192, 4096).0.unwrap();
        let flushes = |scene: &mut Scene, seconds| {
            let all = (0..seconds * 10).flat_map(|_| {
                scene.read(8192, 4096).0.unwrap();
                scene.pass(Duration::from_millis(100))
            });
            all.filter(|line| line == "origin flush").count()
        };
        assert_eq!([flushes(&mut scene, 29), flushes(&mut scene, 2)], [0, 1]);
        scene.write(8192, 4096).0.unwrap();
        let seen = scene.pass(Duration::from_millis(2_000));
        assert!(seen.contains(&"origin flush".into()), "the volume is idle: {seen:?}");
    }

    #[test]
    fn a_failed_origin_flush_is_not_repeated_within_a_second() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("origin flush", DeviceError::Io);
        let flushes = |scene: &mut Scene, span| {
            let mut seen = Vec::new();
            for _ in 0..20 {
                let all =
                    scene.engine.state.cache.segments().iter().map(|(index, _)| index).collect::<Vec<_>>();
                scene.engine.state.hurry_writeback(&all);
                scene.engine.state.volumes.get_mut(VolumeId::new(0)).flush.want();
                seen.extend(scene.read(8192, 4096).1);
                seen.extend(scene.pass(span));
            }
            seen.iter().filter(|line| *line == "origin flush").count()
        };
        assert_eq!(flushes(&mut scene, Duration::from_millis(45)), 1, "in 900 ms");
        assert_eq!(flushes(&mut scene, Duration::from_millis(500)), 10, "in 10 s");
    }

    #[test]
    fn unflushed_writes_are_repeated_after_an_origin_restart() {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        let again = ["cache read 4096", "origin write 8192+4096"];
        let drained = scene.drain();
        assert_eq!(drained[drained.len() - 3..], [again[0], again[1], "origin flush"]);
        assert_eq!(scene.not_clean(), (0, 1));
        assert_eq!(scene.restart_origin(), again);
        scene.end_held();
        assert_eq!(scene.not_clean(), (0, 0), "a second flush followed, which covers the second write");
    }

    #[test]
    fn a_flush_reply_from_before_the_restart_does_not_count() {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        scene.fail("origin write", DeviceError::Io);
        scene.restart_origin();
        scene.end_held();
        assert_eq!(scene.not_clean(), (1, 0), "it could not be written again");
    }

    #[test]
    fn writes_without_a_log_copy_are_durable_on_completion() {
        for mode in [Mode::WriteThrough, Mode::WriteAround, Mode::Bypass] {
            let mut scene = Scene::with_origin(OriginKind::Remote, mode);
            let seen = scene.write(8192, 4096).1;
            assert_eq!(seen.last().unwrap(), "origin write 8192+4096, durable", "{mode:?}");
        }
    }

    /// The origin may have stored a part of the block although it refused the writeback.
    #[test]
    fn a_refused_writeback_needs_a_flush_of_the_origin() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.fail("origin write", DeviceError::Io);
        scene.drain();
        assert!(scene.engine.state.volumes.get(VolumeId::new(0)).flush.is_unsettled());
    }
}
