//! Recent writes to the cache device, recorded for the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kickcache_engine::stats::WearHistory;
use kickcache_engine::time::{Duration, Instant};

use crate::devices::origin_records::OriginRecords;
use crate::devices::state::WearRecord;

/// The least time between two records: a kill loses the counts since the last one.
const NOTE_EVERY: Duration = Duration::from_millis(60_000);

#[derive(Default)]
pub(crate) struct WearNotes {
    due: Instant,
    /// Bytes written in the last day, as of the last [`WearNotes::learn`].
    noted: u64,
    /// Whether the last record could not be written.
    is_unkept: Arc<AtomicBool>,
}

pub(crate) struct WearNote {
    history: WearHistory,
    is_unkept: Arc<AtomicBool>,
}

impl WearNotes {
    pub(super) fn poll_timeout(&self) -> Instant {
        self.due
    }

    /// Whether the next record is due; `true` begins the next interval.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now.plus(NOTE_EVERY);
        }
        is_due
    }

    /// The record of a history; `None` if the number of written bytes is unchanged.
    pub(crate) fn learn(&mut self, history: WearHistory) -> Option<WearNote> {
        let written = history.slots.iter().map(|slot| slot.written).sum();
        let is_new = std::mem::replace(&mut self.noted, written) != written;
        is_new.then(|| WearNote { history, is_unkept: Arc::clone(&self.is_unkept) })
    }
}

impl WearNote {
    /// Writes the record. A failure is logged if the last record could be written.
    pub(crate) fn keep(&self, notes: &OriginRecords) {
        let Some(store) = notes.store() else { return };
        let kept = store.keep_wear(&WearRecord::new(&notes.cache().uuid, &self.history));
        let was_told = self.is_unkept.swap(kept.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (kept, was_told) {
            tracing::warn!(
                event = "record_failed",
                "cannot record the bytes written to the cache device in the last day; they are not \
                 counted after the next start: {error}"
            );
        }
    }
}

/// The record from before this start; `None` without a readable one.
pub(crate) fn noted_wear(notes: &OriginRecords) -> Option<WearRecord> {
    notes.store()?.wear(&notes.cache().uuid).unwrap_or_else(|error| {
        tracing::warn!(
            event = "record_unreadable",
            "the bytes written to the cache device in the last day are not counted: {error}"
        );
        None
    })
}

#[cfg(test)]
mod tests {
    use kickcache_engine::stats::WearSlot;

    use super::*;

    #[test]
    fn written_bytes_are_recorded_once_a_minute() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let history =
            |written| WearHistory { slots: vec![WearSlot { written, wanted: 0 }], ..WearHistory::default() };
        let mut notes = WearNotes::default();
        assert_eq!(
            [1, 2, 60, 61, 62].map(|second| notes.is_due(at(second))),
            [true, false, false, true, false]
        );
        assert_eq!(notes.poll_timeout(), at(121));
        let is_new = [0, 5, 5, 6].map(|written| notes.learn(history(written)).is_some());
        assert_eq!(is_new, [false, true, false, true]);
    }
}
