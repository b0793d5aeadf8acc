//! Blocks that the cache has dropped, while the record of it is in flight or not durable: a power cut may restore these
//! blocks.

use std::collections::{BTreeMap, BTreeSet};

use kickcache_engine::device::{Device, DeviceOperation};
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::{Fact, JournalBlock, JournalBody};
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, VolumeId};

#[derive(Clone, Debug, Default)]
pub(super) struct DroppedBlocks {
    /// The dropped blocks in records with a write that is in flight or failed, by submission.
    written: BTreeMap<u64, Vec<BlockKey>>,
    /// Dropped blocks with a record on the device, each with the number of the first flush that makes the
    /// record durable.
    landed: BTreeMap<BlockKey, u64>,
    /// The numbers of the flushes that have not succeeded, by submission.
    flushes: BTreeMap<u64, u64>,
    next_flush: u64,
}

impl DroppedBlocks {
    pub(super) fn on_submit(&mut self, id: u64, operation: &DeviceOperation, geometry: &Geometry) {
        match operation {
            DeviceOperation::Flush { device: Device::Cache } => {
                self.flushes.insert(id, self.next_flush);
                self.next_flush += 1;
            }
            DeviceOperation::WriteMetadata { bytes, .. } => {
                let body = JournalBlock::decode(bytes, geometry).map(|block| block.body);
                let Some(JournalBody::Records(records)) = body else { return };
                let gone = records.iter().filter_map(|record| match record.fact {
                    Fact::Gone(key) => Some(key),
                    Fact::Clean(_) | Fact::Opened(..) | Fact::Dropped(_) => None,
                });
                self.written.insert(id, gone.collect());
            }
            _ => {}
        }
    }

    pub(super) fn on_end(&mut self, id: u64) {
        if let Some(keys) = self.written.remove(&id) {
            self.landed.extend(keys.into_iter().map(|key| (key, self.next_flush)));
        }
        if let Some(flush) = self.flushes.remove(&id) {
            self.landed.retain(|_, covered_by| *covered_by > flush);
        }
    }

    /// Whether an extent touches a dropped block with a record that is not durable.
    pub(super) fn overlaps(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        let on_way: BTreeSet<&BlockKey> = self.written.values().flatten().collect();
        let blocks = extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE);
        let mut keys = blocks.map(|block| BlockKey::new(volume, BlockIndex::new(block)));
        keys.any(|key| on_way.contains(&key) || self.landed.contains_key(&key))
    }
}
