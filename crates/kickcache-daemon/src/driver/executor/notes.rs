//! The writer of records, outside of the cache device, that this device is out of service.

use crate::driver::backend::WATCH_KEY_MAX;
use crate::driver::notary::{KeepNote, Notary};

/// The key of the watch on the notary; no caller has it.
pub(super) const NOTARY_KEY: u64 = WATCH_KEY_MAX - 1;

/// The writer of the records.
#[derive(Default)]
pub(super) enum Notes {
    /// There is none.
    #[default]
    Nobody,
    /// The writer starts with the first record.
    Later(KeepNote),
    /// A thread.
    Thread(Notary),
}
