//! Notes that no reply waits for, written one after the other by a thread.

use std::collections::VecDeque;
use std::sync::Arc;

use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use crate::devices::origin_records::OriginRecords;
use crate::devices::state::{Completeness, FileStamp, NewestBlocks};
use crate::devices::wear_notes::{WearNote, WearNotes};
use crate::driver::device::{BlockFile, Kind};
use crate::serve::background::Background;
use crate::wakeup::Wakeup;

pub(crate) struct RecordQueue {
    background: Background<()>,
    /// Each entry has its `OriginRecords`, which the loop may drop before the entry is written.
    waiting: VecDeque<(Arc<OriginRecords>, QueuedRecord)>,
    is_busy: bool,
    pub(crate) wear: WearNotes,
}

pub(crate) enum QueuedRecord {
    Completeness(VolumeId, Completeness),
    Newest {
        newest: Vec<NewestBlocks>,
        known: Vec<String>,
    },
    /// The origin's file at the stop, whose size and times are recorded.
    Stop(VolumeId, Arc<BlockFile>),
    Wear(WearNote),
}

impl RecordQueue {
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> RecordQueue {
        let background = Background::new(wakeup);
        RecordQueue { background, waiting: VecDeque::new(), is_busy: false, wear: WearNotes::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_busy && self.waiting.is_empty()
    }

    /// Whether the next wear record is due; `true` begins the next interval. While other records wait, none
    /// is due.
    pub(crate) fn is_wear_due(&mut self, now: Instant) -> bool {
        self.is_empty() && self.wear.is_due(now)
    }

    /// The time at which [`RecordQueue::is_wear_due`] becomes true; `None` while records wait.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.is_empty().then(|| self.wear.poll_timeout())
    }

    pub(crate) fn add(&mut self, notes: &Arc<OriginRecords>, note: QueuedRecord) {
        self.waiting.push_back((Arc::clone(notes), note));
        self.go_on();
    }

    pub(crate) fn go_on(&mut self) {
        while self.background.poll().is_some() {
            self.is_busy = false;
        }
        while !self.is_busy {
            let Some((kept, note)) = self.waiting.pop_front() else { return };
            let keep = move || match note {
                QueuedRecord::Completeness(volume, completeness) => {
                    kept.note_completeness(volume, completeness);
                }
                QueuedRecord::Newest { newest, known } => kept.note_newest(newest, known),
                QueuedRecord::Stop(volume, origin) => {
                    if let Some(stamp) = stamp_durably(&origin) {
                        kept.note_stop(volume, stamp);
                    }
                }
                QueuedRecord::Wear(note) => note.keep(&kept),
            };
            match self.background.begin(keep) {
                Ok(()) => self.is_busy = true,
                Err(error) => {
                    tracing::warn!(
                        event = "record_failed",
                        "cannot keep a record in the state directory: no thread can be started ({error})"
                    );
                }
            }
        }
    }
}

/// Size and times of a file, after the file system has made them durable; `None` for block devices, and after an
/// error.
fn stamp_durably(origin: &BlockFile) -> Option<FileStamp> {
    let file = (origin.kind() == Kind::File).then(|| origin.file())?;
    file.sync_all().ok()?;
    file.metadata().ok().map(|metadata| FileStamp::of(&metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wear_record_is_due_after_the_earlier_records() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let mut queue = RecordQueue::new(Arc::new(Wakeup::new().unwrap()));
        assert!(queue.is_wear_due(at(1)) && !queue.is_wear_due(at(2)));
        assert_eq!(queue.poll_timeout(), Some(at(61)));
        queue.is_busy = true;
        assert!(!queue.is_wear_due(at(70)));
        assert_eq!(queue.poll_timeout(), None, "the end of the records wakes the loop");
        queue.is_busy = false;
        assert!(queue.is_wear_due(at(71)));
        assert_eq!(queue.poll_timeout(), Some(at(131)));
    }
}
