//! The interface of the code under test: the real engine, or in the simulation's own tests a substitute with known
//! flaws.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::engine::Engine;
use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, Superblock};
use kickcache_engine::redo::RedoSettings;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{
    BLOCK_BYTES, BLOCK_SIZE, BlockIndex, ByteExtent, Checksum, SegmentIndex, VolumeId,
};

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::superblock::superblock;

/// An engine, or a substitute, with the functions that a simulation needs in addition to the engine's interface.
pub trait Subject: CacheEngine + Sized {
    /// Whether requests continue while the device of another volume is in trouble.
    const KEEPS_NEIGHBOURS: bool;

    /// Whether this kind of engine survives origins that lose unflushed data.
    const OUTLIVES_RESTARTS: bool;

    /// Whether this engine's cache device has a superblock, can grow, be replaced and be left out, and whether its volumes
    /// can be written back in cuts.
    const GROWS: bool;

    /// Formats a cache device for volumes of these sizes.
    ///
    /// # Errors
    /// A sentence.
    fn format(cache: &mut SimulatedDevice, uuid: [u8; 16], origin_sizes: &[u64]) -> Result<(), String>;
    /// Opens a cache device.
    ///
    /// # Errors
    /// A sentence.
    fn open(
        now: Instant,
        cache: &SimulatedDevice,
        settings: EngineSettings,
        volumes: &[VolumeSettings],
    ) -> Result<Self, String>;
    /// The service mark of a cache device.
    ///
    /// # Errors
    /// A sentence.
    fn service(cache: &SimulatedDevice) -> Result<ServiceMark, String>;
    /// Stores the service mark on a cache device, durably and without a submission.
    ///
    /// # Errors
    /// A sentence.
    fn set_service(cache: &mut SimulatedDevice, mark: ServiceMark) -> Result<(), String>;
    /// Stores a stopped engine's record of its journal, if it has one, on a cache device, durably and without a
    /// submission.
    ///
    /// # Errors
    /// A sentence.
    fn note_journal(&self, cache: &mut SimulatedDevice) -> Result<(), String>;
    /// The clean blocks according to the log: volume, block and checksum.
    fn clean_blocks(&self) -> Vec<(VolumeId, BlockIndex, Checksum)>;
    fn check(&self);
    /// See [`Engine::attach_redo`].
    fn attach_redo(&mut self, _now: Instant, _settings: RedoSettings) {}
    /// The instant of the last committed cut, in nanoseconds; `None` without a redo journal.
    fn redo_committed(&self) -> Option<u64> {
        None
    }
}

impl Subject for Engine {
    const KEEPS_NEIGHBOURS: bool = true;
    const OUTLIVES_RESTARTS: bool = true;
    const GROWS: bool = true;

    fn format(cache: &mut SimulatedDevice, uuid: [u8; 16], origin_sizes: &[u64]) -> Result<(), String> {
        let mut superblock = Superblock::new(uuid, cache.size()).map_err(|error| error.to_string())?;
        for (number, size) in (0..).zip(origin_sizes) {
            let id = superblock.add_volume(&format!("v{number}"), *size, "simulated");
            if id != Ok(VolumeId::new(number)) {
                return Err(format!("volume {number} got id {id:?}"));
            }
        }
        prepare_superblock(cache, &superblock);
        prepare_marks(cache, ServiceMark::InService, uuid);
        Ok(())
    }

    fn service(cache: &SimulatedDevice) -> Result<ServiceMark, String> {
        let uuid = superblock(cache).map_err(|error| error.to_string())?.uuid;
        let [first, second] =
            MARK_OFFSETS.map(|start| cache.bytes(ByteExtent { start, length: MARK_BYTES as u64 }));
        Ok(ServiceMark::decode([&first, &second], uuid))
    }

    fn set_service(cache: &mut SimulatedDevice, mark: ServiceMark) -> Result<(), String> {
        let uuid = superblock(cache).map_err(|error| error.to_string())?.uuid;
        prepare_marks(cache, mark, uuid);
        Ok(())
    }

    fn open(
        now: Instant,
        cache: &SimulatedDevice,
        settings: EngineSettings,
        volumes: &[VolumeSettings],
    ) -> Result<Engine, String> {
        Engine::open(now, &superblock(cache).map_err(|error| error.to_string())?, settings, volumes)
            .map_err(|error| error.to_string())
    }

    fn note_journal(&self, cache: &mut SimulatedDevice) -> Result<(), String> {
        let Some(journal) = self.stopped_journal() else { return Ok(()) };
        let mut superblock = superblock(cache).map_err(|error| error.to_string())?;
        (superblock.epoch, superblock.journal) = (superblock.epoch + 1, journal);
        prepare_superblock(cache, &superblock);
        Ok(())
    }

    fn clean_blocks(&self) -> Vec<(VolumeId, BlockIndex, Checksum)> {
        let count = u32::try_from(self.status().segments).expect("segments have numbers of 32 bits");
        let segments = (0..count).map(SegmentIndex::new);
        let blocks = segments.flat_map(|segment| self.blocks_in(segment));
        blocks
            .filter(|found| !found.is_dirty)
            .map(|found| (found.volume, found.block, found.checksum))
            .collect()
    }

    fn check(&self) {
        self.check();
    }

    fn attach_redo(&mut self, now: Instant, settings: RedoSettings) {
        self.attach_redo(now, settings);
    }

    fn redo_committed(&self) -> Option<u64> {
        self.redo_status().map(|status| status.committed)
    }
}

/// Stores a structure durably, without a submission.
fn prepare(cache: &mut SimulatedDevice, offset: u64, bytes: &[u8]) {
    for (chunk, number) in bytes.chunks_exact(BLOCK_BYTES).zip(offset / BLOCK_SIZE..) {
        cache.prepare(number, &Block::from_bytes(chunk.try_into().expect("a block")));
    }
}

pub(crate) fn prepare_superblock(cache: &mut SimulatedDevice, superblock: &Superblock) {
    let bytes = superblock.encode();
    SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| prepare(cache, offset, &bytes));
}

pub(crate) fn prepare_marks(cache: &mut SimulatedDevice, mark: ServiceMark, uuid: [u8; 16]) {
    let bytes = mark.encode(uuid);
    MARK_OFFSETS.into_iter().for_each(|offset| prepare(cache, offset, &bytes));
}
