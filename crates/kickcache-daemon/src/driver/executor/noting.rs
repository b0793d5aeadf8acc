//! Operations that end when it is recorded elsewhere that the cache device is out of service.

use kickcache_engine::device::DeviceError;
use kickcache_engine::units::VolumeSet;

use crate::driver::backend::Interest;
use crate::driver::executor::notes::{NOTARY_KEY, Notes};
use crate::driver::executor::{Driver, Ended};
use crate::driver::notary::{KeepNote, Notary, NoteEnd};

impl Driver {
    /// Has notes kept by a function, on a thread of its own.
    pub fn keep_notes(&mut self, keep: KeepNote) {
        self.keep_no_notes();
        self.notes = Notes::Later(keep);
    }

    /// Stops writing records.
    pub fn keep_no_notes(&mut self) {
        if let Notes::Thread(notary) = std::mem::take(&mut self.notes) {
            self.backend.unwatch(notary.wakeup(), NOTARY_KEY);
        }
    }

    /// Asks for a note; an operation ends when it is kept.
    pub(super) fn ask_notary(&mut self, token: u32, incomplete: VolumeSet) {
        self.notes = match std::mem::take(&mut self.notes) {
            Notes::Later(keep) => self.start_notary(keep),
            other => other,
        };
        let error = match &self.notes {
            Notes::Thread(notary) if notary.ask(token, incomplete) => return,
            Notes::Thread(_) => DeviceError::Io,
            Notes::Nobody | Notes::Later(_) => DeviceError::Unsupported,
        };
        self.ended.push_back(Ended::Operation(token, Err(error)));
    }

    fn start_notary(&mut self, keep: KeepNote) -> Notes {
        match Notary::start(keep) {
            Ok(notary) => {
                self.backend.watch(notary.wakeup(), NOTARY_KEY, Interest::Readable);
                Notes::Thread(notary)
            }
            Err(error) => {
                tracing::error!(
                    event = "record_failed",
                    "cannot record the state of the cache device: no thread can be started ({error})"
                );
                Notes::Nobody
            }
        }
    }

    /// Ends the operations with written records, or with records that failed.
    pub(super) fn take_notes(&mut self) {
        let Notes::Thread(notary) = &self.notes else { return };
        for NoteEnd { token, is_kept } in notary.take() {
            let result = if is_kept { Ok(()) } else { Err(DeviceError::Io) };
            self.ended.push_back(Ended::Operation(token, result));
        }
        self.backend.watch(notary.wakeup(), NOTARY_KEY, Interest::Readable);
    }
}
