//! One job while it runs.

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;
use kickcache_random::Random;

use crate::workload::fio::direction::{Direction, PerDirection};
use crate::workload::fio::offsets::Offsets;
use crate::workload::fio::options::{JobOptions, Pattern};
use crate::workload::{Access, JobStep, Kind};

#[derive(Debug)]
pub(crate) struct Job {
    options: JobOptions,
    base: u64,
    group: usize,
    random: Random,
    offsets: Offsets,
    position: u64,
    phase: Phase,
    accesses: u64,
    bytes: u64,
    paced: PerDirection<Paced>,
    since_think: u64,
    since_flush: u64,
    next_direction: Option<Direction>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Paced {
    accesses: u64,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Running {
        since: Instant,
        /// The job thinks until this time.
        resting: Instant,
    },
    Finished,
}

impl Job {
    pub(crate) fn new(options: &JobOptions, base: u64, group: usize, mut random: Random) -> Job {
        let blocks = options.size / options.step();
        let offsets = Offsets::new(options, blocks, &mut random);
        Job {
            options: options.clone(),
            base,
            group,
            random,
            offsets,
            position: 0,
            phase: Phase::Waiting,
            accesses: 0,
            bytes: 0,
            paced: PerDirection::default(),
            since_think: 0,
            since_flush: 0,
            next_direction: None,
        }
    }

    pub(crate) fn group(&self) -> usize {
        self.group
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    pub(crate) fn next(&mut self, now: Instant) -> JobStep {
        let (since, resting) = match self.phase {
            Phase::Finished => return JobStep::Finished,
            Phase::Waiting => (now, now.plus(self.options.start_delay)),
            Phase::Running { since, resting } => (since, resting),
        };
        let resting = self.rest(now, resting);
        self.phase = Phase::Running { since, resting };
        if self.is_over(since, now) {
            self.phase = Phase::Finished;
            return JobStep::Finished;
        }
        if resting > now {
            return JobStep::WaitUntil(resting);
        }
        if self.options.flush_every > 0 && self.since_flush >= self.options.flush_every {
            self.since_flush = 0;
            return JobStep::Access(Access { kind: Kind::Flush, extent: ByteExtent { start: 0, length: 0 } });
        }
        let direction = self.choose_direction();
        let due = self.due(since.plus(self.options.start_delay), direction);
        if due > now {
            return JobStep::WaitUntil(due);
        }
        JobStep::Access(self.access(direction))
    }

    /// A new rest begins after each `think_blocks` accesses.
    fn rest(&mut self, now: Instant, resting: Instant) -> Instant {
        if self.options.think == Duration::default() || self.since_think < self.options.think_blocks {
            return resting;
        }
        self.since_think = 0;
        now.plus(self.options.think)
    }

    fn is_over(&self, since: Instant, now: Instant) -> bool {
        let is_late = self.options.longest().is_some_and(|longest| now.since(since) >= longest);
        // As with fio, a block that would end behind `size` is left out, and a block that would end behind `io_size` is not.
        let whole = self.options.size / self.options.step() * self.options.step();
        let limit = self.options.io_size.unwrap_or(whole);
        let is_done = !self.options.time_based && self.bytes >= limit;
        is_late || is_done || self.options.accesses_max.is_some_and(|most| self.accesses >= most)
    }

    /// The direction of the next access, which stays until that access begins.
    fn choose_direction(&mut self) -> Direction {
        let read_percent = self.options.read_percent;
        let drawn = match self.options.pattern {
            Pattern::Read => Direction::Read,
            Pattern::Write => Direction::Write,
            Pattern::Trim => Direction::Trim,
            Pattern::Mixed => match self.next_direction {
                Some(direction) => direction,
                None if self.random.below(100) >= read_percent => Direction::Write,
                None => Direction::Read,
            },
        };
        self.next_direction = Some(drawn);
        drawn
    }

    fn due(&self, start: Instant, direction: Direction) -> Instant {
        let paced = self.paced[direction];
        let at = |amount: u64, rates: PerDirection<u64>| match rates[direction] {
            0 => 0,
            rate => u128::from(amount) * 1_000_000_000 / u128::from(rate),
        };
        let nanos = at(paced.accesses, self.options.accesses_per_second)
            .max(at(paced.bytes, self.options.bytes_per_second));
        start.plus(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn access(&mut self, direction: Direction) -> Access {
        self.next_direction = None;
        let length = self.options.block[direction];
        let start = self.base + self.options.offset + self.place(length);
        self.accesses += 1;
        self.bytes += length;
        self.paced[direction].accesses += 1;
        self.paced[direction].bytes += length;
        self.since_flush += u64::from(direction == Direction::Write);
        self.since_think += 1;
        Access { kind: direction.kind(), extent: ByteExtent { start, length } }
    }

    fn place(&mut self, length: u64) -> u64 {
        let step = self.options.step();
        match self.offsets.next(self.options.size / step) {
            Some(block) => (block * step).min(self.options.size - length) / length * length,
            None => {
                let start = if self.position + length > self.options.size { 0 } else { self.position };
                self.position = start + length;
                start
            }
        }
    }
}
