//! How fast writeback goes: not at all, beside foreground work, or as fast as it can.
//!
//! Foreground reads of the origin come first: while any is queued or in flight, writeback only takes a turn after a
//! number of them that shrinks as the dirty share grows. (Open CAS's cleaner does not look at the queue and cuts a
//! loaded disk to a quarter.)
//!
//! A cap on the rate holds below the high mark, also while the volume is idle. It does not hold where writeback is urgent or the
//! high mark is reached: what clients write would go to the origin anyway, in smaller pieces.

use crate::config::WRITEBACK_BURST;
use crate::rate::{RateCap, RateUse};
use crate::time::{Duration, Instant};

/// Foreground accesses between two writebacks at the low mark.
const TURN_LOW: u64 = 64;

/// What the decider looks at, while a volume has blocks to write back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// Blocks to write back, of all volumes, in 1/1024 of the cache.
    pub(crate) dirty_share: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Foreground reads of the origin, queued or in flight.
    pub(crate) foreground_reads: usize,
    /// Foreground accesses to the origin so far.
    pub(crate) foreground_total: u64,
    pub(crate) last_request: Instant,
    pub(crate) idle_after: Duration,
    /// The user, a mode change or reclaim asks for it.
    pub(crate) urgent: bool,
}

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritebackPace {
    /// Nothing to do until something happens.
    Rest,
    /// Nothing to do before this time.
    RestUntil(Instant),
    /// Up to this many writebacks in flight.
    Run(usize),
}

/// A writeback that starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Start {
    pub(crate) now: Instant,
    /// Foreground accesses to the origin so far.
    pub(crate) foreground_total: u64,
    pub(crate) bytes: u64,
}

/// The pace of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pacing {
    /// `foreground_total` at the last writeback's start.
    turn: u64,
    used: RateUse,
}

impl Pacing {
    pub(crate) fn new() -> Pacing {
        Pacing::default()
    }

    /// A writeback starts.
    pub(crate) fn on_start(&mut self, start: Start, cap: &RateCap) {
        let Start { foreground_total, now, bytes } = start;
        self.turn = foreground_total;
        // What was urgent is not paid for by what comes after it.
        if self.used.ready_at(WRITEBACK_BURST) <= now {
            self.used.take(now, cap, bytes);
        }
    }

    /// The cap is another one.
    pub(crate) fn forget_use(&mut self) {
        self.used = RateUse::default();
    }

    pub(crate) fn choose(&self, view: &View, depth_max: usize) -> WritebackPace {
        if view.dirty_share >= view.high {
            return WritebackPace::Run(depth_max);
        }
        let pace = self.choose_below_high(view, depth_max);
        let ready = self.used.ready_at(WRITEBACK_BURST);
        match pace {
            WritebackPace::Run(_) if !view.urgent && view.now < ready => WritebackPace::RestUntil(ready),
            WritebackPace::Run(_) | WritebackPace::Rest | WritebackPace::RestUntil(_) => pace,
        }
    }

    fn choose_below_high(&self, view: &View, depth_max: usize) -> WritebackPace {
        if view.foreground_reads > 0 {
            return self.choose_beside_reads(view);
        }
        if view.urgent {
            return WritebackPace::Run(depth_max);
        }
        let idle_at = view.last_request.plus(view.idle_after);
        if view.now >= idle_at {
            return WritebackPace::Run(depth_max);
        }
        if view.dirty_share > view.low { WritebackPace::Run(1) } else { WritebackPace::RestUntil(idle_at) }
    }

    fn choose_beside_reads(&self, view: &View) -> WritebackPace {
        if view.dirty_share <= view.low && !view.urgent {
            return WritebackPace::Rest;
        }
        let span = view.high.saturating_sub(view.low).max(1);
        let above = view.dirty_share.saturating_sub(view.low).min(span);
        let turn = if view.urgent { 4 } else { 1 + TURN_LOW * (span - above) / span };
        if view.foreground_total >= self.turn + turn { WritebackPace::Run(1) } else { WritebackPace::Rest }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use super::*;

    fn view() -> View {
        View {
            now: Instant::from_nanos(0),
            dirty_share: 200,
            low: 100,
            high: 500,
            foreground_reads: 1,
            foreground_total: 0,
            last_request: Instant::from_nanos(0),
            idle_after: Duration::from_millis(500),
            urgent: false,
        }
    }

    #[test]
    fn yields_to_foreground_reads_between_the_marks() {
        let pacing = Pacing::new();
        assert_eq!(pacing.choose(&view(), 8), WritebackPace::Rest);
        assert_eq!(pacing.choose(&View { foreground_total: 49, ..view() }, 8), WritebackPace::Run(1));
        assert_eq!(pacing.choose(&View { foreground_total: 48, ..view() }, 8), WritebackPace::Rest);
        assert_eq!(pacing.choose(&View { dirty_share: 500, ..view() }, 8), WritebackPace::Run(8));
    }

    #[test]
    fn a_cap_holds_below_the_high_mark_unless_it_is_urgent() {
        let mut pacing = Pacing::new();
        let cap = RateCap { bytes: NonZeroU64::new(1 << 20), requests: None };
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let idle = View { now: at(10_000), foreground_reads: 0, ..view() };
        assert_eq!(pacing.choose(&idle, 8), WritebackPace::Run(8));
        pacing.on_start(Start { bytes: 256 << 10, now: at(10_000), ..Start::default() }, &cap);
        let rest = WritebackPace::RestUntil(at(10_150));
        assert_eq!(pacing.choose(&idle, 8), rest, "250 ms, and a burst of 100 ms");
        assert_eq!(pacing.choose(&View { urgent: true, ..idle }, 8), WritebackPace::Run(8));
        assert_eq!(pacing.choose(&View { dirty_share: 500, ..idle }, 8), WritebackPace::Run(8));
        pacing.on_start(Start { bytes: 256 << 10, now: at(10_100), ..Start::default() }, &cap);
        assert_eq!(pacing.choose(&idle, 8), rest, "what was urgent is not paid for later");
        assert_eq!(pacing.choose(&View { now: at(10_150), ..idle }, 8), WritebackPace::Run(8));
        pacing.forget_use();
        assert_eq!(pacing.choose(&idle, 8), WritebackPace::Run(8));
    }

    #[test]
    fn drains_when_idle() {
        let quiet = View { foreground_reads: 0, dirty_share: 0, ..view() };
        let at = Instant::from_nanos(500_000_000);
        assert_eq!(Pacing::new().choose(&quiet, 8), WritebackPace::RestUntil(at));
        assert_eq!(Pacing::new().choose(&View { now: at, ..quiet }, 8), WritebackPace::Run(8));
    }
}
