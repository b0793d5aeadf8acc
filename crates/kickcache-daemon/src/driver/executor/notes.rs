//! Who keeps notes that the cache device is out of service, elsewhere than on it.

use crate::driver::backend::WATCH_KEY_MAX;
use crate::driver::notary::{KeepNote, Notary};

/// The key of the watch on the notary; no caller has it.
pub(super) const NOTARY_KEY: u64 = WATCH_KEY_MAX - 1;

/// Who keeps the notes.
#[derive(Default)]
pub(super) enum Notes {
    /// Nobody.
    #[default]
    Nobody,
    /// Somebody, when there is one to be kept.
    Later(KeepNote),
    /// A thread.
    Thread(Notary),
}
