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
    waiting: VecDeque<DirtyState>,
    is_busy: bool,
}

/// What a volume really has: dirty blocks, or none.
pub(crate) struct DirtyState {
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

    /// Notes whether a volume has dirty blocks, as [`Notes::record_dirty`].
    pub(crate) fn record_dirty(&mut self, notes: &Arc<Notes>, state: DirtyState) {
        self.waiting.push_back(state);
        self.go_on(notes);
    }

    /// Takes in what ended, and goes on with what waits.
    pub(crate) fn go_on(&mut self, notes: &Arc<Notes>) {
        while self.background.poll().is_some() {
            self.is_busy = false;
        }
        while !self.is_busy {
            let Some(DirtyState { volume, has_dirty }) = self.waiting.pop_front() else { return };
            let kept = Arc::clone(notes);
            match self.background.begin(move || kept.record_dirty(volume, has_dirty)) {
                Ok(()) => self.is_busy = true,
                Err(error) => {
                    tracing::warn!(
                        "cannot record which volumes are dirty: no thread can be started ({error})"
                    );
                }
            }
        }
    }
}
