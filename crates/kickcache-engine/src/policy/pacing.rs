//! How fast writeback goes: not at all, beside foreground work, or as fast as it can.
//!
//! Foreground reads of the origin come first: while any is queued or in flight, writeback only takes a turn after a
//! number of them that shrinks as the dirty share grows. (Open CAS's cleaner does not look at the queue and cuts a
//! loaded disk to a quarter.)

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

/// The pace of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pacing {
    /// `foreground_total` at the last writeback's start.
    turn: u64,
}

impl Pacing {
    pub(crate) const fn new() -> Pacing {
        Pacing { turn: 0 }
    }

    /// A writeback starts.
    pub(crate) fn on_start(&mut self, foreground_total: u64) {
        self.turn = foreground_total;
    }

    pub(crate) fn choose(&self, view: &View, depth_max: usize) -> WritebackPace {
        if view.dirty_share >= view.high {
            return WritebackPace::Run(depth_max);
        }
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
    fn drains_when_idle() {
        let quiet = View { foreground_reads: 0, dirty_share: 0, ..view() };
        let at = Instant::from_nanos(500_000_000);
        assert_eq!(Pacing::new().choose(&quiet, 8), WritebackPace::RestUntil(at));
        assert_eq!(Pacing::new().choose(&View { now: at, ..quiet }, 8), WritebackPace::Run(8));
    }
}
