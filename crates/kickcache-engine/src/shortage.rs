//! Delays of client writes: while room for dirty blocks is short, and during a drain.
//!
//! Invariants:
//! * T-3: the delay of a write is chosen at its arrival, and bounded; the end of a drain or of the engine ends it
//!   early.

use crate::cache::slots::SlotState;
use crate::config::{Mode, RESERVED_SEGMENTS};
use crate::device::Device;
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::policy::throttle::SHORTAGE_MAX;
use crate::queue::Queue;
use crate::request::{Operation, Request};
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant, earlier};
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, VolumeId};

/// The time without a completion after which an origin with submissions in flight is silent.
const SILENT_MIN: Duration = Duration::from_millis(500);
/// The longest delay of a write by the throttle, without a drain.
const WAIT_MAX: Duration = Duration::from_millis(10);
const WAIT_MAX_DRAINING: Duration = Duration::from_millis(100);
/// The least shortage for writes with data in write-back mode during a drain.
const DRAINING: u64 = SHORTAGE_MAX * 5 / 8;

/// Missing segments delay clients only if less than one part in this many of the segments for clients is left.
const LAST_PART: u64 = 8;

/// Shortages in parts of [`SHORTAGE_MAX`].
struct Shortage {
    of_marks: u64,
    of_segments: u64,
}

impl State {
    /// Whether the origin is not silent and writeback does not pause.
    pub(crate) fn is_taking(&self, volume: VolumeId) -> bool {
        let since = self.submissions.silent_since(Device::Origin(volume));
        let is_silent = since.is_some_and(|since| self.now >= since.plus(SILENT_MIN));
        self.now >= self.volumes.get(volume).backoff_until && !is_silent
    }

    pub(crate) fn is_above_high(&self, volume: VolumeId) -> bool {
        self.dirty_share(volume) >= u64::from(self.volumes.get(volume).settings.dirty_high)
    }

    /// The shortage of room for dirty blocks of a volume, in parts of [`SHORTAGE_MAX`].
    pub(crate) fn shortage(&self, volume: VolumeId) -> u64 {
        let Shortage { of_marks, of_segments } = self.shortages(volume);
        of_marks.max(of_segments)
    }

    fn shortages(&self, volume: VolumeId) -> Shortage {
        let found = self.volumes.get(volume);
        let (high, limit) = (u64::from(found.settings.dirty_high), u64::from(found.settings.dirty_limit));
        let above = self.dirty_share(volume).saturating_sub(high) * SHORTAGE_MAX;
        let of_marks = above.checked_div(limit.saturating_sub(high)).unwrap_or(0).min(SHORTAGE_MAX);
        let of_segments = if found.writeback_wanted { self.segments_missing() } else { 0 };
        Shortage { of_marks, of_segments }
    }

    /// The shortage that delays a write, in parts of [`SHORTAGE_MAX`]. A write that only replaces dirty or unflushed
    /// blocks uses no more room.
    fn shortage_for(&self, volume: VolumeId, extent: ByteExtent) -> u64 {
        let Shortage { of_marks, of_segments } = self.shortages(volume);
        let of_segments = (of_segments * LAST_PART).saturating_sub((LAST_PART - 1) * SHORTAGE_MAX);
        let shortage = of_marks.max(of_segments);
        if shortage == 0 {
            return 0;
        }
        let is_not_clean =
            |block| self.cache.state_of(BlockKey::new(volume, block)).is_some_and(SlotState::is_not_clean);
        let is_replacing = blocks_of(extent).all(is_not_clean);
        if is_replacing { of_segments } else { shortage }
    }

    /// The missing part of the segments that reclaim keeps ready, in parts of [`SHORTAGE_MAX`].
    pub(crate) fn segments_missing(&self) -> u64 {
        let blocks = u64::from(self.cache.geometry().batch_blocks());
        let coming = self.segments_coming().saturating_sub(RESERVED_SEGMENTS) as u64;
        let left = coming * blocks + u64::from(self.device.log.room(Queue::Probation));
        let wanted = (self.ready_low() - RESERVED_SEGMENTS) as u64 * blocks;
        wanted.saturating_sub(left) * SHORTAGE_MAX / wanted
    }

    fn begins_at(&mut self, request: &Request<'_>) -> Option<Instant> {
        let is_write = match request.operation {
            Operation::Write(_) | Operation::WriteZeroes { .. } => true,
            Operation::Read | Operation::Flush | Operation::Promote | Operation::Discard => false,
        };
        let volume = request.volume;
        if !is_write || self.is_ending || self.device.is_out_of_service() {
            return None;
        }
        let (now, draining) = (self.now, self.volumes.get(volume).draining);
        let is_logged = self.volumes.get(volume).settings.mode == Mode::WriteBack;
        let is_payload = matches!(request.operation, Operation::Write(_));
        let at_least = if draining { DRAINING } else { 0 };
        let shortage =
            if is_logged && is_payload { self.shortage_for(volume, request.extent).max(at_least) } else { 0 };
        if shortage == 0 && !draining || !self.is_taking(volume) {
            return None;
        }
        let held_until = if draining { self.look_at_drain(volume) } else { None };
        let throttle = &mut self.volumes.get_mut(volume).throttle;
        let wait_max = if draining { WAIT_MAX_DRAINING } else { WAIT_MAX };
        let at = throttle.admit(now, request.extent.length.div_ceil(BLOCK_SIZE), shortage, wait_max);
        let at = held_until.map_or(at, |until| until.max(at));
        (at > now).then_some(at)
    }

    /// The end of the pause of a draining volume's writes, if any.
    fn look_at_drain(&mut self, volume: VolumeId) -> Option<Instant> {
        let (now, blocks) = (self.now, *self.cache.volume(volume));
        let left = blocks.not_clean() - blocks.damaged;
        let found = self.volumes.get_mut(volume);
        found.drain_end.look(now, left, found.throttle.each())
    }

    pub(crate) fn begin_in_time(&mut self, slot: RequestSlot, request: &Request<'_>) {
        match self.begins_at(request) {
            Some(at) => self.volumes.get_mut(request.volume).delayed.push_back((at, slot)),
            None => self.agenda.push_back(Task::Begin(slot)),
        }
    }

    pub(crate) fn begin_delayed(&mut self) {
        for volume in self.volumes.ids() {
            let (now, is_ending) = (self.now, self.is_ending);
            let delayed = &mut self.volumes.get_mut(volume).delayed;
            let count = delayed.iter().take_while(|(at, _)| *at <= now || is_ending).count();
            self.agenda.extend(delayed.drain(..count).map(|(_, slot)| Task::Begin(slot)));
        }
    }

    pub(crate) fn end_delay(&mut self, volume: VolumeId) {
        let delayed = &mut self.volumes.get_mut(volume).delayed;
        self.agenda.extend(delayed.drain(..).map(|(_, slot)| Task::Begin(slot)));
    }

    pub(crate) fn delay_timeout(&self) -> Option<Instant> {
        let first = |volume| self.volumes.get(volume).delayed.front().map(|(at, _)| *at);
        self.volumes.ids().map(first).fold(None, earlier)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BinaryHeap;
    use alloc::vec::Vec;
    use core::cmp::Reverse;

    use super::*;
    use crate::blank_device;
    use crate::config::{EngineSettings, VolumeSettings};
    use crate::device::{Completion, Submission};
    use crate::engine::{Engine, Phase};
    use crate::format::superblock::Superblock;
    use crate::request::{Durability, RequestId};

    /// Nanoseconds of a read or durable write of the origin; half for a volatile write.
    const EACH: u64 = 4_000_000;

    struct Clocked {
        engine: Engine,
        now: Instant,
        ends: BinaryHeap<Reverse<(Instant, u64)>>,
        submitted: Vec<Option<Submission>>,
        origin_free: Instant,
        unflushed: u64,
        random: u64,
        /// The number and start of each write in flight.
        begun: Vec<(u64, Instant)>,
        longest: Duration,
        is_hung: bool,
    }

    const VOLUME: VolumeId = VolumeId::new(0);

    impl Clocked {
        fn new(mode: Mode) -> Clocked {
            let mut superblock = Superblock::new([1; 16], 32 << 20).unwrap();
            let volume = superblock.add_volume("v", 1 << 30, "v").unwrap();
            let settings = VolumeSettings { mode, ..VolumeSettings::new(volume) };
            let mut engine =
                Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &[settings]).unwrap();
            blank_device::run(&mut engine, Instant::ZERO);
            assert_eq!(engine.phase(), Phase::Running);
            Clocked {
                engine,
                now: Instant::ZERO,
                ends: BinaryHeap::new(),
                submitted: Vec::new(),
                origin_free: Instant::ZERO,
                unflushed: 0,
                random: 1,
                begun: Vec::new(),
                longest: Duration::default(),
                is_hung: false,
            }
        }

        fn submit(&mut self, submission: Submission) {
            use crate::device::DeviceOperation::{Flush, Write};
            if blank_device::data_of(&submission.operation).is_none() {
                return;
            }
            let end = match (submission.operation.device(), &submission.operation) {
                (Some(Device::Origin(_)), operation) => {
                    let nanos = if matches!(operation, Flush { .. }) {
                        EACH * core::mem::take(&mut self.unflushed)
                    } else if matches!(operation, Write { durability: Durability::Volatile, .. }) {
                        self.unflushed += 1;
                        EACH / 2
                    } else {
                        EACH
                    };
                    self.origin_free = self.origin_free.max(self.now).plus(Duration::from_nanos(nanos));
                    if self.is_hung { Instant::from_nanos(u64::MAX) } else { self.origin_free }
                }
                (Some(_), _) => self.now.plus(Duration::from_micros(50)),
                (None, _) => self.now,
            };
            self.ends.push(Reverse((end, self.submitted.len() as u64)));
            self.submitted.push(Some(submission));
        }

        fn pump(&mut self) {
            while let Some(submission) = self.engine.poll_submission() {
                self.submit(submission);
            }
            while let Some(reply) = self.engine.poll_reply() {
                assert_eq!(reply.result, Ok(()));
                let at = self.begun.iter().position(|(id, _)| *id == u64::from(reply.id.get())).unwrap();
                let (_, begun) = self.begun.swap_remove(at);
                self.longest = self.longest.max(self.now.since(begun));
            }
        }

        fn write(&mut self, blocks: u64) {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = (self.random >> 33) % blocks * BLOCK_SIZE;
            let id = u32::try_from(self.random >> 33).unwrap();
            let request = Request {
                id: RequestId::new(id),
                volume: VOLUME,
                operation: Operation::Write(Durability::Volatile),
                extent: ByteExtent { start, length: BLOCK_SIZE },
                checksums: blank_device::checksums(1),
            };
            self.begun.push((id.into(), self.now));
            self.engine.handle_request(self.now, request);
            self.pump();
        }

        fn pass(&mut self, until: Instant) {
            loop {
                let end = self.ends.peek().map(|Reverse((at, _))| *at);
                let Some(next) = earlier(end, self.engine.poll_timeout()).filter(|next| *next <= until)
                else {
                    self.now = until;
                    return;
                };
                self.now = self.now.max(next);
                if end.is_some_and(|end| end <= self.now) {
                    let Reverse((_, number)) = self.ends.pop().unwrap();
                    let place = usize::try_from(number).unwrap();
                    let Submission { id, operation } = self.submitted[place].take().unwrap();
                    let result = Ok(blank_device::data_of(&operation).unwrap());
                    self.engine.handle_completion(self.now, Completion { id, result });
                } else {
                    self.engine.handle_timeout(self.now);
                }
                self.pump();
            }
        }

        /// Writes at an interval for this many seconds, or until the drain ends; returns the duration of the drain.
        fn write_every(&mut self, nanos: u64, blocks: u64, seconds: u64) -> Option<Duration> {
            let begin = self.now;
            let was_draining = self.is_draining();
            while self.now.since(begin).as_nanos() < seconds * 1_000_000_000 {
                self.write(blocks);
                self.pass(self.now.plus(Duration::from_nanos(nanos)));
                if was_draining && !self.is_draining() {
                    return Some(self.now.since(begin));
                }
            }
            None
        }

        fn keep_writing(&mut self, blocks: u64, seconds: u64) {
            let end = self.now.plus(Duration::from_millis(seconds * 1_000));
            while self.now < end {
                if self.begun.is_empty() {
                    self.write(blocks);
                }
                self.pass(self.now.plus(Duration::from_micros(200)));
            }
        }

        fn is_draining(&self) -> bool {
            self.engine.status().volumes[0].is_draining
        }
    }

    #[test]
    fn a_drain_ends_while_clients_write() {
        for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround, Mode::Bypass] {
            for blocks in [100, 100_000] {
                let mut clocked = Clocked::new(Mode::WriteBack);
                clocked.write_every(1_000_000, blocks, 2);
                clocked.engine.set_mode(clocked.now, VOLUME, mode);
                clocked.engine.drain(clocked.now, VOLUME);
                assert!(clocked.is_draining());
                let took = clocked.write_every(2 * EACH, blocks, 90);
                assert!(took.is_some(), "{mode:?}, {blocks}: {:?}", clocked.engine.status().volumes[0]);
                assert!(clocked.longest.as_nanos() < 3_000_000_000, "{mode:?}: {:?}", clocked.longest);
            }
        }
    }

    #[test]
    fn writes_meet_the_rate_of_writeback_between_the_marks() {
        let mut clocked = Clocked::new(Mode::WriteBack);
        clocked.keep_writing(100_000, 20);
        let share = clocked.engine.state.dirty_share(VOLUME);
        assert!((512..716).contains(&share), "{share}");
        let counters = clocked.engine.status().volumes[0].counters;
        assert_eq!(counters.bypass_blocks, 0, "all writes entered the log");
        assert!(counters.writeback_blocks > 500, "{counters:?}");
        assert!(clocked.longest.as_nanos() < 150_000_000, "{:?}", clocked.longest);
    }

    #[test]
    fn a_hung_origin_keeps_no_write_waiting_below_the_limit() {
        let mut clocked = Clocked::new(Mode::WriteBack);
        clocked.write_every(1_000_000, 100_000, 2);
        clocked.is_hung = true;
        clocked.pass(clocked.now.plus(Duration::from_millis(2_000)));
        clocked.longest = Duration::default();
        let share = clocked.engine.state.dirty_share(VOLUME);
        clocked.write_every(10_000_000, 100, 1);
        assert!(share < 700 && clocked.longest.as_nanos() < 50_000_000, "{share}, {:?}", clocked.longest);
    }
}
