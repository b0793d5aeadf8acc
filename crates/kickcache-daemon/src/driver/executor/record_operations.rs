//! Operations that end when it is recorded elsewhere that the cache device is out of service.

use kickcache_engine::device::DeviceError;
use kickcache_engine::units::VolumeSet;

use crate::driver::backend::Interest;
use crate::driver::executor::record_writer::{RECORD_THREAD_KEY, RecordWriter};
use crate::driver::executor::{Driver, EndedOperation};
use crate::driver::record_thread::{RecordEnd, RecordSink, RecordThread};

impl Driver {
    /// Writes records with `keep`, on a thread of its own.
    pub fn keep_notes(&mut self, keep: RecordSink) {
        self.keep_no_notes();
        self.notes = RecordWriter::Later(keep);
    }

    pub fn keep_no_notes(&mut self) {
        if let RecordWriter::Thread(thread) = std::mem::take(&mut self.notes) {
            self.backend.unwatch(thread.wakeup(), RECORD_THREAD_KEY);
        }
    }

    /// Requests a record that the cache device is out of service. The operation ends when the record is
    /// written or has failed, or at once with an error if there is no writer.
    pub(super) fn request_record(&mut self, token: u32, incomplete: VolumeSet) {
        self.notes = match std::mem::take(&mut self.notes) {
            RecordWriter::Later(keep) => self.start_record_thread(keep),
            other => other,
        };
        let error = match &self.notes {
            RecordWriter::Thread(thread) if thread.ask(token, incomplete) => return,
            RecordWriter::Thread(_) => DeviceError::Io,
            RecordWriter::Nobody | RecordWriter::Later(_) => DeviceError::Unsupported,
        };
        self.ended.push_back(EndedOperation::Operation(token, Err(error)));
    }

    fn start_record_thread(&mut self, keep: RecordSink) -> RecordWriter {
        match RecordThread::start(keep) {
            Ok(thread) => {
                self.backend.watch(thread.wakeup(), RECORD_THREAD_KEY, Interest::Readable);
                RecordWriter::Thread(thread)
            }
            Err(error) => {
                tracing::error!(
                    event = "record_failed",
                    "cannot record the state of the cache device: no thread can be started ({error})"
                );
                RecordWriter::Nobody
            }
        }
    }

    pub(super) fn take_notes(&mut self) {
        let RecordWriter::Thread(thread) = &self.notes else { return };
        for RecordEnd { token, is_kept } in thread.take() {
            let result = if is_kept { Ok(()) } else { Err(DeviceError::Io) };
            self.ended.push_back(EndedOperation::Operation(token, result));
        }
        self.backend.watch(thread.wakeup(), RECORD_THREAD_KEY, Interest::Readable);
    }
}
