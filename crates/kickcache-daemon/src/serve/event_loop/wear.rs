//! Recent writes to the cache device: recorded at intervals, and counted after the next start.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::engine::Engine;
use kickcache_engine::time::{Duration, Instant};

use super::EventLoop;
use crate::devices::record_queue::QueuedRecord;
use crate::devices::wear_notes::noted_wear;

impl<E: CacheEngine> EventLoop<E> {
    /// No record is added while others wait.
    pub(super) fn note_wear_when_due(&mut self, now: Instant) {
        if self.note_queue.is_wear_due(now) {
            self.note_wear(now);
        }
    }

    /// Queues a record of the recent writes, if there were new ones.
    pub(super) fn note_wear(&mut self, now: Instant) {
        let Some(notes) = &self.notes else { return };
        let history = self.core.engine.wear_history(now);
        if let Some(note) = self.note_queue.wear.learn(history) {
            self.note_queue.add(notes, QueuedRecord::Wear(note));
        }
    }
}

impl EventLoop<Engine> {
    /// Counts the writes recorded before this start.
    pub(crate) fn remember_wear(&mut self) {
        let Some(record) = self.notes.as_ref().and_then(|notes| noted_wear(notes)) else { return };
        let now = self.core.clock.now();
        let ago = u64::try_from(record.age().as_nanos()).unwrap_or(u64::MAX).saturating_sub(now.as_nanos());
        self.core.engine.remember_wear(now, &record.history(), Duration::from_nanos(ago));
    }
}
