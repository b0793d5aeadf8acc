//! Notes about volumes that no reply waits for, kept by a thread, one after the other: the state directory may lie on a disk
//! that hangs.

use std::collections::VecDeque;
use std::sync::Arc;

use kickcache_engine::units::VolumeId;

use crate::serve::background::Background;
use crate::serve::notes::Notes;
use crate::state::Completeness;
use crate::wakeup::Wakeup;

/// The notes that are to be kept.
pub(crate) struct NoteQueue {
    background: Background<()>,
    waiting: VecDeque<CompletenessNote>,
    is_busy: bool,
}

/// Whether a volume's origin has everything, to be noted.
pub(crate) struct CompletenessNote {
    pub(crate) volume: VolumeId,
    pub(crate) completeness: Completeness,
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

    /// As [`Notes::note_completeness`], off the loop.
    pub(crate) fn add(&mut self, notes: &Arc<Notes>, note: CompletenessNote) {
        self.waiting.push_back(note);
        self.go_on(notes);
    }

    /// Takes in what ended, and goes on with what waits.
    pub(crate) fn go_on(&mut self, notes: &Arc<Notes>) {
        while self.background.poll().is_some() {
            self.is_busy = false;
        }
        while !self.is_busy {
            let Some(CompletenessNote { volume, completeness }) = self.waiting.pop_front() else { return };
            let kept = Arc::clone(notes);
            match self.background.begin(move || kept.note_completeness(volume, completeness)) {
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
