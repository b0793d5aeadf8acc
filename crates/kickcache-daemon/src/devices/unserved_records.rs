//! Records of all volumes in the superblock of a cache device that is left out.

use std::sync::{Mutex, PoisonError};

use kickcache_engine::units::VolumeId;

use crate::devices::state::{CacheRecord, OriginRecord, StateError, StateStore};

pub(crate) type KnownNames = Mutex<Vec<(VolumeId, String)>>;

/// Records that the origins lack no block of the device, and that it is stale from here on. The caller has made sure that the
/// volumes have no dirty blocks there, or that the user gives the dirty blocks up.
///
/// # Errors
/// If a record cannot be read or written.
pub(crate) fn leave_out_known(
    store: &StateStore,
    cache: &CacheRecord,
    known: &KnownNames,
) -> Result<(), StateError> {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_meant = |record: &OriginRecord| {
        record.cache_uuid == cache.uuid && known.iter().any(|(_, name)| *name == record.volume)
    };
    let records = store.origins()?.records.into_iter().filter(is_meant);
    let left = |record| OriginRecord { may_be_dirty: false, written_without: true, ..record };
    records.map(left).try_for_each(|record| store.keep_origin(&record))
}
