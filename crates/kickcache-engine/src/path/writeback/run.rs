//! Chooses the writebacks that start together: a run of adjacent blocks on the origin, or several runs with first
//! blocks that are close together in the log.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::inflight::origin::{AccessRequest, OriginAccess, Priority};
use crate::inflight::writebacks::Writeback;
use crate::path::writeback::durability::durability_of;
use crate::path::writeback::sweep::{gather, is_ripe, next_dirty};
use crate::path::writeback::transfer::read_blocks;
use crate::pool::BufferQuota;
use crate::request::Durability;
use crate::state::State;
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, Location, VolumeId};

/// Most blocks of one writeback, and of writebacks that start together.
pub(super) const BLOCKS_MAX: usize = 64;
/// How far in the log first blocks are searched, in blocks.
const STRETCH_MAX: usize = 32;
/// A dirty block can be included, with the clean blocks before it, if it is at most this many blocks after the last
/// included one. If the cache device is slow, only dirty blocks directly after each other are included.
const REACH: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StartedWritebacks {
    pub(super) bytes: u64,
    /// Reads of the cache device.
    pub(super) reads: u64,
}

/// The reads for writebacks that start together.
struct Wanted {
    /// Blocks of one stretch of the log, in LBA order.
    stretch: Vec<BlockCopy>,
    /// Pages for other blocks, and how many of these blocks may be apart from the block before them in the log.
    others: usize,
    alone: usize,
}

impl Wanted {
    fn new(stretch: Vec<BlockCopy>, alone: usize) -> Wanted {
        let others = BLOCKS_MAX - stretch.len();
        Wanted { stretch, others, alone }
    }

    /// Whether a block is included after another one.
    fn takes(&mut self, before: BlockCopy, copy: BlockCopy) -> bool {
        if self.stretch.binary_search(&copy).is_ok() {
            return true;
        }
        let stands_alone = copy.location != before.location.plus(1);
        if self.others == 0 || stands_alone && self.alone == 0 {
            return false;
        }
        self.others -= 1;
        self.alone -= usize::from(stands_alone);
        true
    }
}

/// Starts one writeback, or some together; `None` if there are none to start now.
pub(super) fn start(state: &mut State, volume: VolumeId) -> Option<StartedWritebacks> {
    let mut first = next_dirty(state, volume);
    if first.is_none() {
        gather(state, volume);
        first = next_dirty(state, volume);
    }
    let first = first?;
    let pages = state.pool.take_for(volume, BLOCKS_MAX, BufferQuota::All)?;
    let mut wanted = choose_wanted(state, volume, first);
    let (mut pages, mut slots, mut bytes) = (pages.into_iter(), Vec::new(), 0);
    for first in wanted.stretch.clone() {
        if state.cache.slots().is_in_writeback(first.location) {
            continue;
        }
        let blocks = merge_neighbours(state, volume, first, &mut wanted);
        let length = blocks.len() as u64 * BLOCK_SIZE;
        let extent = ByteExtent { start: first.key.block().byte_offset(), length };
        let request = AccessRequest { extent, access: OriginAccess::Write, priority: Priority::Background };
        let durability = durability_of(state, volume, length);
        let now = state.now;
        let found = state.volumes.get_mut(volume);
        let ticket = found.queue.enqueue(request);
        found.flush.begin_writeback(length, durability);
        found.throttle.begin(now);
        let pages: Vec<_> = pages.by_ref().take(blocks.len()).collect();
        let missing = blocks.len();
        assert!(pages.len() == missing, "there are pages for all that is wanted");
        let writeback =
            Writeback { volume, extent, blocks, pages, ticket, missing, failed: false, durability };
        slots.push(state.writebacks.insert(writeback));
        bytes += length;
        if durability == Durability::Durable {
            break;
        }
    }
    let reads = read_blocks(state, volume, &slots, pages.collect());
    Some(StartedWritebacks { bytes, reads })
}

/// The blocks that are read together with the first block.
fn choose_wanted(state: &State, volume: VolumeId, first: BlockCopy) -> Wanted {
    let found = state.volumes.get(volume);
    let is_origin_spared =
        found.queue.foreground_reads() > 0 || found.settings.writeback_cap.requests.is_some();
    let most = BLOCKS_MAX - 1;
    if !found.offload.is_cache_slow() || is_origin_spared || state.is_doubtful(first) {
        return Wanted::new(alloc::vec![first], most);
    }
    let alone = usize::try_from(found.offload.reads_meanwhile()).unwrap_or(most).min(most);
    Wanted::new(stretch(state, first, (BLOCKS_MAX - alone).min(STRETCH_MAX)), alone)
}

/// The block, and the blocks that may be included from this many places of the log, beginning with its own.
fn stretch(state: &State, first: BlockCopy, places: usize) -> Vec<BlockCopy> {
    let geometry = state.cache.geometry();
    let segment = geometry.first_location(geometry.segment_of(first.location)).get();
    let from = first.location.get();
    let end =
        (segment + geometry.blocks_per_segment()).min(from + u32::try_from(places).expect("at most 64"));
    let may_go = |copy: &BlockCopy| {
        copy.key.volume() == first.key.volume() && is_ripe(state, *copy) && !state.is_doubtful(*copy)
    };
    let copies =
        (from..end).map(Location::new).map(|at| state.cache.copy_at(state.cache.slots().key(at), at));
    let mut blocks: Vec<_> = copies.filter(may_go).collect();
    blocks.sort_unstable();
    blocks
}

/// The first block and the adjacent blocks that are written with it: dirty blocks, and short stretches of clean ones
/// between them. Their writeback begins.
fn merge_neighbours(
    state: &mut State,
    volume: VolumeId,
    first: BlockCopy,
    wanted: &mut Wanted,
) -> Vec<BlockCopy> {
    let mut blocks = alloc::vec![first];
    let mut length = 1;
    let most = if state.is_doubtful(first) { 1 } else { BLOCKS_MAX as u64 };
    let fills_gaps = !state.volumes.get(volume).offload.is_cache_slow();
    for offset in 1..most {
        let key = BlockKey::new(volume, first.key.block().plus(offset));
        let Some(location) = state.cache.find(key) else { break };
        let copy = state.cache.copy_at(key, location);
        let is_dirty = is_ripe(state, copy);
        if state.is_doubtful(copy) || !(is_dirty || fills_gaps && may_fill_gap(state, location)) {
            break;
        }
        if offset >= length as u64 + REACH || !wanted.takes(blocks[blocks.len() - 1], copy) {
            break;
        }
        blocks.push(copy);
        if is_dirty {
            length = blocks.len();
        }
    }
    blocks.truncate(length);
    for copy in &blocks {
        state.cache.enter_sweep(copy.location);
        state.cache.begin_writeback(copy.location);
    }
    blocks
}

/// Whether a clean block may be included. Not once the cache is out of service: writes bypass it then, and the clean
/// copy remains until the origin has them.
fn may_fill_gap(state: &State, location: Location) -> bool {
    let is_clean = state.cache.slots().state(location) == SlotState::Clean;
    is_clean && state.is_durable(location) && !state.device.is_out_of_service()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::scene::Scene;
    use crate::units::BlockIndex;

    #[test]
    fn a_stretch_has_pages_for_all_its_blocks() {
        let scene = Scene::new(Mode::WriteBack);
        let copy = |block: u64, location: u32| {
            let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
            scene.engine.state.cache.copy_at(key, Location::new(location))
        };
        let stretch: Vec<_> = (0..62).map(|number| copy(u64::from(number) * 10, 100 + number)).collect();
        let mut wanted = Wanted::new(stretch, 1);
        let last = copy(610, 161);
        assert!(!Wanted::new(Vec::new(), 0).takes(last, copy(611, 300)), "alone in the log");
        assert!(wanted.takes(last, copy(611, 162)) && wanted.takes(copy(611, 162), copy(612, 300)));
        assert!(!wanted.takes(copy(612, 300), copy(613, 301)), "no page is left");
        assert!(wanted.takes(copy(9, 400), copy(10, 101)), "it has one");
    }
}
