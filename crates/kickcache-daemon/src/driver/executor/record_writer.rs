//! The writer of records, outside of the cache device, that this device is out of service.

use crate::driver::backend::WATCH_KEY_MAX;
use crate::driver::record_thread::{RecordSink, RecordThread};

/// The key of the watch on the record thread; no caller has it.
pub(super) const RECORD_THREAD_KEY: u64 = WATCH_KEY_MAX - 1;

#[derive(Default)]
pub(super) enum RecordWriter {
    #[default]
    Nobody,
    Later(RecordSink),
    Thread(RecordThread),
}
