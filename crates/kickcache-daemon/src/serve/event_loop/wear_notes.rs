//! What was written to the cache device lately, noted for the next start: a write budget's day does not begin anew with the daemon.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::engine::Engine;
use kickcache_engine::stats::WearHistory;
use kickcache_engine::time::{Duration, Instant};

use super::EventLoop;
use crate::serve::note_queue::Note;

/// A kill loses what was counted in such a span at most.
const NOTE_EVERY: Duration = Duration::from_millis(60_000);

/// When that is noted next.
#[derive(Default)]
pub(crate) struct WearNotes {
    due: Instant,
    /// Bytes of a day, as noted last.
    noted: u64,
}

impl WearNotes {
    /// When [`WearNotes::poll`] may have something.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.due
    }

    /// Whether it is time to look.
    fn poll(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now.plus(NOTE_EVERY);
        }
        is_due
    }

    /// Whether that is something new.
    fn learn(&mut self, history: &WearHistory) -> bool {
        let written = history.slots.iter().map(|slot| slot.written).sum();
        std::mem::replace(&mut self.noted, written) != written
    }
}

impl<E: CacheEngine> EventLoop<E> {
    /// Notes it now and then. What waits for a state directory that hangs does not become more.
    pub(super) fn note_wear_when_due(&mut self, now: Instant) {
        if self.wear_notes.poll(now) && self.note_queue.is_empty() {
            self.note_wear(now);
        }
    }

    /// Notes it, if anything was written.
    pub(super) fn note_wear(&mut self, now: Instant) {
        let Some(notes) = &self.notes else { return };
        let history = self.core.engine.wear_history(now);
        if self.wear_notes.learn(&history) {
            self.note_queue.add(notes, Note::Wear(history));
        }
    }
}

impl EventLoop<Engine> {
    /// Counts what was noted before this start.
    pub(crate) fn remember_wear(&mut self) {
        let Some(record) = self.notes.as_ref().and_then(|notes| notes.wear()) else { return };
        let now = self.core.clock.now();
        let ago = u64::try_from(record.age().as_nanos()).unwrap_or(u64::MAX).saturating_sub(now.as_nanos());
        self.core.engine.remember_wear(now, &record.history(), Duration::from_nanos(ago));
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::stats::WearSlot;

    use super::*;

    #[test]
    fn what_was_written_is_noted_once_a_minute() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let history =
            |written| WearHistory { slots: vec![WearSlot { written, wanted: 0 }], ..WearHistory::default() };
        let mut notes = WearNotes::default();
        assert_eq!(
            [1, 2, 60, 61, 62].map(|second| notes.poll(at(second))),
            [true, false, false, true, false]
        );
        assert_eq!(notes.poll_timeout(), at(121));
        assert_eq!([0, 5, 5, 6].map(|written| notes.learn(&history(written))), [false, true, false, true]);
    }
}
