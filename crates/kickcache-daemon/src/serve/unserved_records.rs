//! Records of the volumes that a cache device knows and that are not served, when the device is left out.

use kickcache_engine::units::VolumeId;

use crate::state::{CacheRecord, OriginRecord, StateError, StateStore};

/// The volumes of a cache device that are not served.
pub(crate) struct Unserved<'a> {
    /// The device.
    pub(crate) cache: &'a CacheRecord,
    /// All volumes of the device.
    pub(crate) known: &'a [(VolumeId, String)],
    /// The identities of the origins that are served.
    pub(crate) served: &'a [String],
}

impl Unserved<'_> {
    /// Records that the origins lack no block of the device, and that it is stale from here on. The caller has made sure that
    /// these volumes have no dirty blocks there, or that the user gives the dirty blocks up.
    ///
    /// # Errors
    /// If a record cannot be read or written.
    pub(crate) fn leave_out(&self, store: &StateStore) -> Result<(), StateError> {
        let is_meant = |record: &OriginRecord| {
            let is_known = self.known.iter().any(|(_, name)| *name == record.volume);
            is_known && record.cache_uuid == self.cache.uuid && !self.served.contains(&record.identity)
        };
        let records = store.origins()?.records.into_iter().filter(is_meant);
        let left = |record| OriginRecord { may_be_dirty: false, written_without: true, ..record };
        records.map(left).try_for_each(|record| store.keep_origin(&record))
    }
}
