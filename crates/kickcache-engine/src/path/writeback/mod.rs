//! Writeback: dirty blocks are written to the origin, adjacent ones together.
//!
//! Invariants:
//! * I-3: a block that was written back is clean only after a flush of the origin, or if the writeback was durable.
//! * A block is written to the origin only when its copy in the log is durable: otherwise a power cut could restore an
//!   older copy than the origin has.

mod durability;
mod run;
mod sweep;
mod transfer;

use crate::config::WRITEBACK_DEPTH_MAX;
use crate::path::writeback::run::BLOCKS_MAX;
pub(crate) use crate::path::writeback::sweep::on_not_durable;
pub(crate) use crate::path::writeback::transfer::{on_read, on_written};
use crate::policy::pacing::{Start, View, WantedBy, WritebackPace};
use crate::state::State;
use crate::time::{Duration, Instant};
use crate::units::VolumeId;

/// With this many writebacks, no more blocks are read from a slow cache device.
const SLOW_DEPTH_MAX: usize = 96;
/// The most FUA writebacks in flight while the volume is idle; one at a time while it is not idle.
const DURABLE_DEPTH_IDLE: usize = 4;
/// Pause before the next check of writeback.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn choose(state: &State, volume: VolumeId) -> WritebackPace {
    let found = state.volumes.get(volume);
    if state.now < found.backoff_until {
        return WritebackPace::RestUntil(found.backoff_until);
    }
    let blocks = state.cache.volume(volume);
    if blocks.dirty == blocks.damaged || state.is_point_in_time(volume) {
        return WritebackPace::Rest;
    }
    if let Some(at) = state.unreadable.rest_until() {
        return WritebackPace::RestUntil(at);
    }
    let settings = &found.settings;
    let high = u64::from(settings.dirty_high);
    let wanted_by = match (found.draining, found.writeback_wanted) {
        (true, _) => WantedBy::Drain,
        (false, true) => WantedBy::Reclaim,
        (false, false) => WantedBy::Nobody,
    };
    let view = View {
        now: state.now,
        dirty_share: if state.is_above_high(volume) { high } else { state.dirty_data_share(volume) },
        low: u64::from(settings.dirty_low),
        high,
        foreground_reads: found.queue.foreground_reads(),
        foreground_total: found.foreground_total,
        cache: found.offload.cache_work(),
        last_request: found.last_request,
        idle_after: settings.idle_after,
        shortage: state.shortage(volume),
        wanted_by,
    };
    found.pacing.choose(&view, WRITEBACK_DEPTH_MAX)
}

/// Starts as many writebacks as the pace allows; none while the engine ends, unless a write waits for room.
pub(crate) fn go_on(state: &mut State, volume: VolumeId) {
    if state.volumes.find(volume).is_none() {
        return;
    }
    state.volumes.get_mut(volume).look_again_at = state.now.plus(LOOK_AGAIN);
    if state.is_ending && !state.waiters.want_room() {
        return;
    }
    loop {
        let WritebackPace::Run(depth) = choose(state, volume) else { return };
        if !may_start(state, volume, depth) {
            return;
        }
        let Some(started) = run::start(state, volume) else { return };
        let now = state.now;
        let found = state.volumes.get_mut(volume);
        let (foreground_total, cache_done) = (found.foreground_total, found.offload.cache_work().done);
        let start = Start { now, foreground_total, cache_done, bytes: started.bytes, reads: started.reads };
        found.pacing.on_start(start, &found.settings.writeback_cap);
    }
}

/// Whether more writebacks may start at this depth.
fn may_start(state: &State, volume: VolumeId, depth: usize) -> bool {
    let writebacks = &state.writebacks;
    let found = state.volumes.get(volume);
    let is_idle = state.now >= found.idle_at();
    if writebacks.durable_count_for(volume) >= if is_idle { DURABLE_DEPTH_IDLE } else { 1 } {
        return false;
    }
    if depth > 1 && found.offload.is_cache_slow() {
        return !writebacks.is_reading(volume)
            && writebacks.count_for(volume) < SLOW_DEPTH_MAX
            && writebacks.blocks_for(volume) < depth * BLOCKS_MAX;
    }
    writebacks.count_for(volume) < depth
}

pub(crate) fn poll_timeout(state: &State, volume: VolumeId) -> Option<Instant> {
    match choose(state, volume) {
        WritebackPace::RestUntil(at) => Some(at),
        WritebackPace::Run(_) | WritebackPace::GiveWay if state.writebacks.count_for(volume) == 0 => {
            Some(state.volumes.get(volume).look_again_at)
        }
        WritebackPace::Rest | WritebackPace::Run(_) | WritebackPace::GiveWay => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::num::NonZeroU64;

    use super::*;
    use crate::config::{Mode, VolumeSettings};
    use crate::device::DeviceError;
    use crate::rate::RateCap;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;
    use crate::units::BLOCK_SIZE;

    /// Three clean blocks, and eight hits that took the cache device this many microseconds each.
    fn with_hits(micros: u64) -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..3).for_each(|block| scene.write(block * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
        scene.drain();
        for number in 0..8 {
            scene.hold("cache read");
            scene.begin(Operation::Read, number % 3 * BLOCK_SIZE, BLOCK_SIZE);
            scene.engine.handle_sleep(Duration::from_micros(micros));
            scene.end_held();
            scene.take_reply().unwrap().unwrap();
        }
        scene
    }

    fn drained(scene: &mut Scene) -> Vec<String> {
        let is_of_writeback =
            |line: &String| line.starts_with("cache read") || line.starts_with("origin write");
        scene.drain().into_iter().filter(is_of_writeback).collect()
    }

    #[test]
    fn adjacent_blocks_in_a_slow_cache_are_one_read() {
        let writes = |scene: &mut Scene| {
            [20, 700, 400].into_iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        };
        let mut spared = with_hits(1_500);
        spared.settings(VolumeId::new(0)).writeback_cap.requests = NonZeroU64::new(1_000);
        writes(&mut spared);
        assert_eq!(drained(&mut spared).iter().filter(|line| *line == "cache read 4096").count(), 3);
        let to_origin = ["origin write 81920+4096", "origin write 1638400+4096", "origin write 2867200+4096"];
        let mut fast = with_hits(100);
        writes(&mut fast);
        assert_eq!(drained(&mut fast).iter().filter(|line| *line == "cache read 4096").count(), 3);
        let mut slow = with_hits(1_500);
        writes(&mut slow);
        let seen = drained(&mut slow);
        assert_eq!(seen, [&["cache read 20480"], &to_origin[..]].concat());
        assert_eq!((slow.not_clean(), slow.engine.pool_pages_used()), ((0, 0), 0));
    }

    #[test]
    fn blocks_rewritten_since_are_read_but_not_written_back() {
        let mut scene = with_hits(1_500);
        [20, 700, 400, 700].into_iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        let seen = drained(&mut scene);
        assert!(seen.contains(&"cache read 28672".into()), "with the older copy in the middle: {seen:?}");
        assert_eq!(seen.iter().filter(|line| line.starts_with("origin write 2867200+")).count(), 1);
        assert_eq!(scene.not_clean(), (0, 0));
    }

    #[test]
    fn unreadable_stretches_are_read_block_by_block() {
        let mut scene = with_hits(1_500);
        [20, 700, 400].into_iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        scene.fail("cache read 20480", DeviceError::Io);
        let seen = drained(&mut scene);
        assert_eq!(seen.iter().filter(|line| *line == "cache read 4096").count(), 3, "{seen:?}");
        assert_eq!((scene.not_clean(), scene.engine.pool_pages_used()), ((0, 0), 0));
    }

    /// A dirty block, and two writes through the log of another block, which is durable there: the first write is in
    /// flight at the origin, the second waits.
    fn with_writes_through(micros: u64, block: u64) -> Scene {
        let mut scene = with_hits(micros);
        scene.write(20 * BLOCK_SIZE, BLOCK_SIZE).0.unwrap();
        let volume = VolumeId::new(0);
        scene.settings(volume).mode = Mode::WriteThrough;
        scene.settings(volume).dirty_high = 0;
        scene.hold("origin write");
        let write = Operation::Write(Durability::Volatile);
        (0..2).for_each(|_| drop(scene.begin(write, block * BLOCK_SIZE, BLOCK_SIZE)));
        scene.begin(Operation::Flush, 0, 0);
        assert_eq!(scene.take_reply(), Some(Ok(())));
        scene
    }

    #[test]
    fn refused_client_writes_are_not_written_back() {
        let mut scene = with_writes_through(100, 21);
        let now = scene.engine.state.now;
        scene.engine.state.volumes.get_mut(VolumeId::new(0)).refused_at = Some(now);
        scene.begin(Operation::Read, 21 * BLOCK_SIZE, BLOCK_SIZE);
        scene.drain();
        scene.fail_times(1, "origin write 86016", DeviceError::Io);
        let mut seen = scene.end_held();
        let replies: Vec<_> = core::iter::from_fn(|| scene.take_reply()).collect();
        assert_eq!(replies, [Ok(()), Err(Errno::Io), Ok(())]);
        seen.extend(scene.drain());
        let writes = seen.iter().skip_while(|line| !line.starts_with("origin read"));
        let writes: Vec<_> = writes.filter(|line| line.starts_with("origin write")).collect();
        assert_eq!(writes, ["origin write 81920+4096"], "the read blocks have changed since: {seen:?}");
    }

    #[test]
    fn a_client_write_through_the_log_reaches_the_origin_once() {
        for (micros, block) in [(100, 21), (1_500, 700)] {
            let mut scene = with_writes_through(micros, block);
            let mut seen = scene.drain();
            seen.extend(scene.end_held());
            seen.extend(scene.drain());
            let writes: Vec<_> = seen.iter().filter(|line| line.starts_with("origin write")).collect();
            let second = alloc::format!("origin write {}+4096", block * BLOCK_SIZE);
            assert_eq!(writes, ["origin write 81920+4096", &second], "{seen:?}");
        }
    }

    #[test]
    fn long_writebacks_from_a_slow_cache_have_the_same_depth() {
        for micros in [100, 3_000] {
            let mut scene = with_hits(micros);
            let volume = VolumeId::new(0);
            for _ in 0..8 {
                scene.engine.state.begin_metered_writeback_read(volume, 1);
                scene.engine.handle_sleep(Duration::from_micros(micros));
                scene.engine.state.end_metered_writeback_read(volume, 1);
            }
            (0..16).for_each(|number| scene.write((1 << 20) + (number << 18), 1 << 18).0.unwrap());
            scene.hold("origin write");
            scene.drain();
            let pages = scene.engine.pool_pages_used();
            assert!((512..576).contains(&pages), "{pages} of 1,024 blocks, {micros} us a read");
            scene.end_held();
            assert_eq!((scene.not_clean(), scene.engine.pool_pages_used()), ((0, 0), 0));
        }
    }

    #[test]
    fn a_slow_cache_reads_single_blocks_during_origin_load() {
        let mut scene = with_hits(1_500);
        let volume = VolumeId::new(0);
        let blocks = (0..40).map(|number| if number == 39 { 101 } else { 100 + 10 * number });
        blocks.for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        let origin = &mut scene.engine.state.volumes.get_mut(volume).offload.origin;
        for number in 0..8 {
            origin.begin_writeback(Instant::from_nanos(number * 100_000_000), BLOCK_SIZE);
            origin.end_writeback(Instant::from_nanos((number + 1) * 100_000_000), BLOCK_SIZE);
        }
        origin.begin_writeback(Instant::from_nanos(800_000_000), BLOCK_SIZE);
        let seen = drained(&mut scene);
        assert!(seen.contains(&"origin write 409600+8192".into()), "{seen:?}");
    }

    fn idle(blocks: u64) -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..blocks).for_each(|number| scene.write(number * 100 * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
        scene.settings(VolumeId::new(0)).idle_after = Duration::from_millis(1);
        scene
    }

    fn origin_writes(seen: &[String]) -> Vec<bool> {
        let writes = seen.iter().filter(|line| line.starts_with("origin write"));
        writes.map(|line| line.ends_with("durable")).collect()
    }

    #[test]
    fn the_origin_holds_no_more_unflushed_than_it_flushes_soon() {
        let mut scene = idle(60);
        scene.hold("origin flush");
        let mut seen = scene.pass(Duration::from_millis(100));
        seen.extend(scene.end_held());
        assert_eq!(seen.iter().filter(|line| *line == "origin flush").count(), 1, "{seen:?}");
        let writes = origin_writes(&seen);
        assert_eq!((&writes[..8], writes[8..].iter().all(|is_durable| *is_durable)), (&[false; 8][..], true));
        assert_eq!((writes.len(), scene.not_clean()), (60, (0, 0)), "no second flush");
    }

    #[test]
    fn durable_writebacks_are_single_while_clients_are_active() {
        for (idle_after, count) in [(1, DURABLE_DEPTH_IDLE), (1_000_000, 1)] {
            let mut scene = idle(30);
            let volume = VolumeId::new(0);
            let flush = &mut scene.engine.state.volumes.get_mut(volume).flush;
            flush.on_client_write(Instant::ZERO, 1 << 30);
            let settings = scene.settings(volume);
            (settings.dirty_low, settings.dirty_high, settings.dirty_limit) = (0, 0, 1);
            settings.idle_after = Duration::from_millis(idle_after);
            scene.hold("origin");
            let mut seen = scene.begin(Operation::Read, 0, BLOCK_SIZE);
            seen.extend(scene.pass(Duration::from_millis(1_000)));
            assert_eq!(origin_writes(&seen), alloc::vec![true; count], "{idle_after}");
        }
    }

    #[test]
    fn a_refused_durable_writeback_makes_unflushed_blocks_dirty() {
        let mut scene = idle(9);
        scene.hold("origin flush");
        scene.fail("origin write 3276800", DeviceError::Io);
        scene.pass(Duration::from_millis(100));
        assert_eq!(scene.not_clean(), (9, 0));
        scene.heal();
        scene.end_held();
        assert_eq!(scene.not_clean().0, 9, "the flush in flight does not cover them");
        scene.pass(Duration::from_millis(10_000));
        assert_eq!(scene.not_clean(), (0, 0));
    }

    #[test]
    fn neighbours_are_written_back_in_order_in_one_write() {
        let mut scene = Scene::new(Mode::WriteBack);
        [5, 3, 4, 40].into_iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        let seen = scene.drain();
        let writes: Vec<_> = seen.iter().filter(|line| line.starts_with("origin")).collect();
        assert_eq!(
            writes,
            ["origin write 12288+12288", "origin write 163840+4096", "origin flush"],
            "{seen:?}"
        );
        assert!(scene.drain().is_empty(), "all of it is clean");
    }

    #[test]
    fn clean_blocks_between_dirty_ones_are_written_from_fast_caches() {
        for (micros, writes) in [(100, 1), (1_500, 2)] {
            let mut scene = with_hits(micros);
            [0, 2].into_iter().for_each(|block| scene.write(block * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
            let seen = scene.drain();
            let count = seen.iter().filter(|line| line.starts_with("origin write")).count();
            assert_eq!(count, writes, "{micros} us a read: {seen:?}");
        }
    }

    #[test]
    fn an_idle_volume_keeps_its_cap_unlike_a_drain() {
        let mut scene = Scene::new(Mode::WriteBack);
        let capped = VolumeSettings {
            mode: Mode::WriteBack,
            idle_after: Duration::from_millis(500),
            writeback_cap: RateCap { bytes: NonZeroU64::new(8 * BLOCK_SIZE), requests: None },
            ..VolumeSettings::new(VolumeId::new(0))
        };
        scene.engine.change_settings(scene.now, &capped);
        (0..100).for_each(|number| scene.write(number * 100 * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
        let writes =
            |seen: Vec<_>| seen.iter().filter(|line: &&String| line.starts_with("origin write")).count();
        assert_eq!(writes(scene.pass(Duration::from_millis(499))), 0);
        assert_eq!(writes(scene.pass(Duration::from_millis(5_000))), 41, "eight blocks a second");
        assert_eq!(writes(scene.drain()), 59);
    }

    #[test]
    fn writeback_gets_its_turns_despite_hits() {
        let mut scene = Scene::new(Mode::WriteBack);
        let volume = VolumeId::new(0);
        let place = |number: u64| number * 100 * BLOCK_SIZE;
        (0..200).for_each(|number| scene.write(place(number), BLOCK_SIZE).0.unwrap());
        scene.hold("cache read");
        (0..8).for_each(|number| drop(scene.begin(Operation::Read, place(number), BLOCK_SIZE)));
        scene.engine.handle_sleep(Duration::from_millis(10));
        scene.end_held();
        (0..8).for_each(|_| scene.take_reply().unwrap().unwrap());
        scene.engine.state.begin_metered_hit(volume, 64);
        scene.settings(volume).dirty_low = 0;
        let mut seen = Vec::new();
        for number in 0..800 {
            let (result, done) = scene.read(place(number % 200), BLOCK_SIZE);
            result.unwrap();
            seen.extend(done);
            seen.extend(scene.pass(Duration::from_millis(1)));
        }
        let reads = seen.iter().filter(|line| line.starts_with("cache read")).count() - 800;
        assert!((8..=20).contains(&reads), "{reads} reads for writeback during 800 hits");
    }

    #[test]
    fn unflushed_blocks_are_written_back_again() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("origin flush", DeviceError::Io);
        assert!(scene.drain().iter().any(|line| line == "origin write 8192+4096"));
        scene.heal();
        let mut again = scene.drain();
        again.extend(scene.drain());
        assert!(again.iter().any(|line| line == "origin write 8192+4096"), "{again:?}");
    }
}
