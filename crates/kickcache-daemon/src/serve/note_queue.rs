//! Notes about volumes that no reply waits for, kept by a thread, one after the other: the state directory may lie on a disk
//! that hangs.

use std::collections::VecDeque;
use std::sync::Arc;

use kickcache_engine::units::VolumeId;

use crate::serve::background::Background;
use crate::serve::notes::Notes;
use crate::wakeup::Wakeup;

/// The notes that are to be kept.
pub(crate) struct NoteQueue {
    background: Background<()>,
    waiting: VecDeque<Settled>,
    is_busy: bool,
}

/// What a volume really has: dirty blocks, or none.
pub(crate) struct Settled {
    pub(crate) volume: VolumeId,
    pub(crate) has_dirty: bool,
}

impl NoteQueue {
    /// Nothing to note.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> NoteQueue {
        let background = Background::new(wakeup);
        NoteQueue { background, waiting: VecDeque::new(), is_busy: false }
    }

    /// Whether all notes are kept.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_busy && self.waiting.is_empty()
    }

    /// Notes whether a volume has dirty blocks, as [`Notes::settle`].
    pub(crate) fn settle(&mut self, notes: &Arc<Notes>, settled: Settled) {
        self.waiting.push_back(settled);
        self.go_on(notes);
    }

    /// Takes in what ended, and goes on with what waits.
    pub(crate) fn go_on(&mut self, notes: &Arc<Notes>) {
        while self.background.poll().is_some() {
            self.is_busy = false;
        }
        while !self.is_busy {
            let Some(Settled { volume, has_dirty }) = self.waiting.pop_front() else { return };
            let kept = Arc::clone(notes);
            match self.background.begin(move || kept.settle(volume, has_dirty)) {
                Ok(()) => self.is_busy = true,
                Err(error) => {
                    tracing::warn!("what is dirty is not noted: no thread can be started ({error})");
                }
            }
        }
    }
}
