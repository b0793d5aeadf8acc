//! The history that the groups of a redo journal are compared with.

use kickcache_engine::error::Error;
use kickcache_engine::format::redo::{RedoGeometry, RedoTail, TAIL_OFFSETS};
use kickcache_engine::redo::recovery::{FoundGroup, committed_groups};
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, VolumeId};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::index::index;
use crate::oracle::Oracle;
use crate::oracle::instants::Instants;

pub(super) const UUID: [u8; 16] = [0x5A; 16];

/// The redo journal of a run, with the history that its groups are compared with.
pub(super) struct GroupHistory {
    pub(super) instants: Instants,
    /// The instant of the last cut that was reported as committed, in nanoseconds.
    pub(super) reported: u64,
    pub(super) random: Random,
}

/// What the journal has: its tail, and its committed groups.
pub(super) struct FoundRedo {
    pub(super) geometry: RedoGeometry,
    pub(super) tail: RedoTail,
    pub(super) groups: Vec<FoundGroup>,
}

pub(super) fn find(journal: &SimulatedDevice) -> Result<FoundRedo, String> {
    let geometry = RedoGeometry::for_device(journal.size()).ok_or("the journal is too small")?;
    let block = BLOCK_BYTES as u64;
    let [first, second] = TAIL_OFFSETS.map(|start| journal.bytes(ByteExtent { start, length: block }));
    let tail = RedoTail::decode([&first, &second], UUID).ok_or("the journal has no tail")?;
    let mut read = |start: u64, length: usize| {
        Ok::<_, Error>(journal.bytes(ByteExtent { start, length: length as u64 }))
    };
    let groups = committed_groups(UUID, geometry, tail, &mut read).map_err(|error| error.to_string())?;
    Ok(FoundRedo { geometry, tail, groups })
}

/// Completes the committed groups on the origins; returns the instant of the last one, in nanoseconds.
fn recover(journal: &SimulatedDevice, origins: &mut [Vec<Block>]) -> Result<u64, String> {
    let FoundRedo { geometry, tail, groups } = find(journal)?;
    for group in &groups {
        for (chunk, blocks) in group.chunks.iter().enumerate() {
            for (at, block) in blocks.iter().enumerate() {
                let place = group.byte_offset(geometry, chunk, at) / BLOCK_SIZE;
                let volume = usize::from(block.key.volume().get());
                origins[volume][index(block.key.block().get())] = journal.blocks()[index(place)].clone();
            }
        }
    }
    Ok(groups.last().map_or(tail.instant, |group| group.instant))
}

impl GroupHistory {
    pub(super) fn new(random: Random) -> GroupHistory {
        GroupHistory { instants: Instants::default(), reported: 0, random }
    }

    pub(super) fn examine(
        &self,
        journal: &SimulatedDevice,
        origins: &[SimulatedDevice],
        oracle: &Oracle,
    ) -> Result<(), String> {
        let mut blocks: Vec<Vec<Block>> = origins.iter().map(|origin| origin.blocks().to_vec()).collect();
        let instant = recover(journal, &mut blocks)?;
        if instant < self.reported {
            return Err(format!("the journal ends at {instant}, and {} was reported", self.reported));
        }
        let find = |volume: VolumeId, block: u64| &blocks[usize::from(volume.get())][index(block)];
        let first = |volume, block| oracle.first(volume, block);
        self.instants.judge(oracle.book(), Instant::from_nanos(instant), find, first)
    }
}
