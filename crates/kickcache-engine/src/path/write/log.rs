//! The log's part of a write: its blocks join batches, and it waits until these have landed.

use alloc::vec::Vec;

use crate::append::{Claim, NewBlock};
use crate::cache::slots::SlotState;
use crate::config::BATCH_BLOCKS_MAX;
use crate::device::Memory;
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::inflight::origin::OriginAccess;
use crate::inflight::writing::{IfRefused, LoggedPart, Logging, OriginTurn, WriteData, WritePhase, Written};
use crate::log::Entry;
use crate::path::write::{finish, lock, origin};
use crate::policy::miniature::Use;
use crate::policy::turn::{BlockRank, written_over};
use crate::pool::{Pool, page_memory};
use crate::queue::Queue;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, BlockKey, Checksum, Location};

/// CRC32C of 4096 zero bytes.
const ZERO_BLOCK_CHECKSUM: Checksum = Checksum::new(0x98f9_4189);

/// Blocks of a long write that are looked up in parallel.
const WARMED_MAX: usize = 32;

/// `false` if no power cut can restore an older copy of a block.
fn may_resurface(state: &State, key: BlockKey) -> bool {
    (!state.device.order.is_durable(state.device.newest_gone()) && !mutant!(GoneResurfaces))
        || state.cache.find(key).is_some()
}

/// Appends the blocks of a write, or queues it with the others that wait for space. Out of service, the log accepts no
/// blocks.
pub(super) fn append(state: &mut State, slot: RequestSlot) {
    let is_turn = !state.waiters.want_room();
    if state.device.is_out_of_service() {
        give_up_log(state, slot);
    } else if is_turn && append_blocks(state, slot) {
        on_appended(state, slot);
    } else {
        state.waiters.wait_for_room(slot);
        lock::lock(state, slot);
    }
}

/// Writes that wait for space in the log continue, in order.
pub(crate) fn go_on_appending(state: &mut State) {
    while let Some(slot) = state.waiters.first_for_room() {
        if state.device.is_out_of_service() {
            state.waiters.end_first_for_room();
            give_up_log(state, slot);
        } else if append_blocks(state, slot) {
            state.waiters.end_first_for_room();
            on_appended(state, slot);
        } else {
            return;
        }
    }
}

fn give_up_log(state: &mut State, slot: RequestSlot) {
    state.requests.get_mut(slot).writing().note_part();
    lock::unlock(state, slot);
    state.end_pending(slot);
}

/// All blocks of a write are in the log: it waits for them to land. A write through the log also takes its place at the
/// origin.
fn on_appended(state: &mut State, slot: RequestSlot) {
    lock::unlock(state, slot);
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    if writing.is_through_log() {
        let extent = writing.extent.widened_to_blocks();
        let place = state.volumes.get_mut(volume).enqueue(extent, OriginAccess::Write);
        if let WritePhase::Logging(Logging { ticket, .. }) = &mut state.requests.get_mut(slot).writing().phase
        {
            *ticket = Some(place);
        }
    }
    state.end_pending(slot);
}

fn append_blocks(state: &mut State, slot: RequestSlot) -> bool {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    let (extent, done) = (writing.extent, writing.written.len());
    state.fills.invalidate(volume, extent);
    if done == 0 {
        // The queue of each block is known only after its look-up, so the blocks are kept together in both queues.
        let count = u32::try_from(blocks_of(extent).len()).expect("requests have at most 32 MiB");
        for queue in Queue::ALL {
            state.device.log.keep_together(queue, count.min(BATCH_BLOCKS_MAX));
        }
    }
    let blocks = blocks_of(extent).skip(done);
    let is_long = blocks.len() > 1;
    blocks.clone().enumerate().all(|(at, block)| {
        if is_long && at.is_multiple_of(WARMED_MAX) {
            let next = blocks.clone().skip(at).take(WARMED_MAX);
            state.cache.warm(next.map(|block| BlockKey::new(volume, block)));
        }
        append_block(state, slot, BlockKey::new(volume, block))
    })
}

/// Appends a block; `false` if the log has no space for it now.
fn append_block(state: &mut State, slot: RequestSlot, key: BlockKey) -> bool {
    if state.is_group_full(key) {
        return false;
    }
    let writing = state.requests.get_mut(slot).writing();
    let (is_through, durability) = (writing.is_through_log(), writing.durability);
    let found = state.cache.find(key);
    state.retention.hold.observe(key, Use::Write);
    if found.is_some() {
        state.retention.passage.on_hit(key);
    }
    let entry = Entry { older: state.older_copy(found), ..entry_of(state, slot, key) };
    let BlockRank { queue, hits } = match found {
        Some(location) => written_over(standing(state, location)),
        None => BlockRank {
            queue: state.retention.place(key).map_or(Queue::Probation, |known| known.queue),
            hits: 0,
        },
    };
    let is_at_stake = is_through && may_resurface(state, key);
    let durability = if is_at_stake { Durability::Durable } else { durability };
    let durability = if mutant!(FuaIgnored) { Durability::Volatile } else { durability };
    let if_refused = if_refused(state, key, found);
    let new = NewBlock {
        claim: Claim::Spare,
        queue,
        entry,
        state: SlotState::Dirty,
        waiter: Some(slot).filter(|_| !mutant!(AcknowledgedBeforeLanding)),
        durability,
    };
    let was_dirty = state.cache.volume(key.volume()).dirty > 0;
    let Some(location) = state.append(key, new) else { return false };
    if found != Some(location) {
        state.cache.set_hits(location, hits);
    }
    if !was_dirty {
        state.volumes.get_mut(key.volume()).dirty_since = state.now;
    }
    if is_through {
        state.cache.enter_sweep(location);
    }
    let copy = state.cache.copy_at(key, location);
    state.volumes.get_mut(key.volume()).counters.logged_blocks += 1;
    state.requests.get_mut(slot).writing().written.push(Written { copy, if_refused });
    true
}

fn standing(state: &State, location: Location) -> BlockRank {
    let queue = state.cache.segments().get(state.cache.segment_of(location)).queue;
    BlockRank { queue, hits: state.cache.slots().hits(location) }
}

/// The fate of a block if the origin refuses it and no client has read it.
fn if_refused(state: &State, key: BlockKey, found: Option<Location>) -> IfRefused {
    let Some(location) = state.older_copy(found) else { return IfRefused::Forgotten };
    let copy = state.cache.copy_at(key, location);
    state.requests.written_through(&state.cache, copy).unwrap_or_else(|| {
        match state.cache.slots().state(location) {
            SlotState::Unflushed => IfRefused::StaysUnflushed,
            SlotState::Dirty | SlotState::Clean | SlotState::Dead => IfRefused::StaysDirty,
        }
    })
}

fn entry_of(state: &mut State, slot: RequestSlot, key: BlockKey) -> Entry {
    let pending = state.requests.get_mut(slot);
    let (id, start) = (pending.id, pending.extent.start);
    let writing = pending.writing();
    let (memory, checksum) = match (writing.merged(key.block()), writing.source) {
        (Some(merged), _) => (page_memory(merged.page), merged.checksum),
        (None, WriteData::Zeroes) => (page_memory(Pool::ZERO_PAGE), ZERO_BLOCK_CHECKSUM),
        (None, WriteData::Payload) => {
            let at = key.block().byte_offset() - start;
            let offset = u32::try_from(at).expect("requests have at most 32 MiB");
            let number = usize::try_from(at / BLOCK_SIZE).expect("below 8192");
            (Memory::Request { id, offset }, writing.checksums[number])
        }
    };
    Entry { key: Some(key), memory, checksum, dirty: true, page: None, older: None }
}

/// The write waits for no more batches.
pub(super) fn on_logged(state: &mut State, slot: RequestSlot, Logging { route, ticket, taken }: Logging) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent.widened_to_blocks();
    let ticket = match (ticket, taken) {
        (None, LoggedPart::All) => return finish::end(state, slot),
        (Some(ticket), LoggedPart::All) => ticket,
        (Some(ticket), LoggedPart::Part) if may_go_on(state, slot) => ticket,
        (_, LoggedPart::Part) => return start_again(state, slot),
    };
    state.requests.get_mut(slot).writing().phase = WritePhase::AtOrigin(OriginTurn { route, ticket });
    state.requests.add_pending(slot);
    match taken {
        LoggedPart::All => origin::submit(state, slot),
        LoggedPart::Part => {
            // Fills in flight may read the origin before this write: their data is not cached.
            state.fills.invalidate(volume, extent);
            state.wait_marked(slot);
        }
    }
}

/// Whether a write that the log has taken only partly may continue at the origin.
fn may_go_on(state: &mut State, slot: RequestSlot) -> bool {
    let mut keys = state.keys(slot);
    let writing = state.requests.get_mut(slot).writing();
    let own = writing.written.clone();
    let is_others = |key: BlockKey| {
        let is_own = |location: &Location| {
            let copy = state.cache.copy_at(key, *location);
            own.iter().any(|written| written.copy == copy)
        };
        let found = state.cache.find(key).filter(|location| !is_own(location));
        found.is_some_and(|location| state.cache.slots().state(location) == SlotState::Dirty)
    };
    state.device.is_out_of_service() && (!keys.any(is_others) || mutant!(OlderDirtyPassedBy))
}

/// The log has taken only a part: the write begins again, so that the other bytes of its partial blocks are read again.
fn start_again(state: &mut State, slot: RequestSlot) {
    let writing = state.requests.get_mut(slot).writing();
    let was_through = writing.is_through_log();
    let phase = core::mem::replace(&mut writing.phase, WritePhase::Arrived);
    let pages: Vec<_> = writing.merged.drain(..).map(|merged| merged.page).collect();
    state.requests.through_count -= u32::from(was_through);
    finish::note_at_origin(state, slot, finish::AtOrigin::NotWritten);
    if let WritePhase::Logging(Logging { ticket: Some(ticket), .. }) = phase {
        let volume = state.requests.get(slot).volume;
        state.release_ticket(volume, ticket);
    }
    pages.into_iter().for_each(|page| state.pool.release(page));
    state.wake_stalled();
    state.agenda.push_back(Task::Begin(slot));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::format::bytes::crc32c;
    use crate::inflight::requests::Stage;
    use crate::request::Operation;
    use crate::scene::Scene;
    use crate::units::{BlockIndex, ByteExtent, VolumeId};
    use crate::waiters::{LockReason, WriteLock};

    #[test]
    fn a_second_overwrite_moves_a_block_to_main() {
        let mut scene = Scene::new(Mode::WriteBack);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(0));
        let mut write = || {
            scene.write(0, 4096).0.unwrap();
            let state = &scene.engine.state;
            let BlockRank { queue, hits } = standing(state, state.cache.find(key).unwrap());
            (queue, hits)
        };
        let (probation, main) = (Queue::Probation, Queue::Main);
        assert_eq!(
            [write(), write(), write(), write()],
            [(probation, 0), (probation, 1), (main, 0), (main, 1)]
        );
    }

    #[test]
    fn a_repeated_write_keeps_its_logged_part_after_a_refusal() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("cache log");
        scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
        let state = &mut scene.engine.state;
        let (holder, volume, reason) = (RequestSlot(u32::MAX), VolumeId::new(0), LockReason::Prepared);
        let extent = ByteExtent { start: 0, length: 4096 };
        state.waiters.lock(WriteLock { holder, volume, extent, reason });
        state.requests.iter_mut().for_each(|pending| {
            if let Stage::Write(writing) = &mut pending.stage {
                writing.note_part();
            }
        });
        scene.end_held();
        assert_eq!(scene.take_reply(), None, "it waits for its turn among the writes");
        assert_eq!(scene.read(0, 4096).1, ["cache read 4096"]);
        scene.fail_times(1, "origin write", DeviceError::Io);
        scene.engine.state.waiters.unlock(holder);
        scene.engine.state.wake_stalled();
        scene.engine.handle_timeout(scene.now);
        let seen = scene.run();
        assert!(scene.take_reply().is_some_and(|reply| reply.is_err()), "{seen:?}");
        assert_eq!(scene.read(0, 4096).1, ["cache read 4096"], "a read block does not vanish");
        assert_eq!(scene.not_clean(), (1, 0));
    }

    #[test]
    fn the_zero_block_checksum_matches_zeroes() {
        assert_eq!(crc32c(&[0; 4096]), ZERO_BLOCK_CHECKSUM);
    }

    #[test]
    fn a_refused_block_stays_as_the_log_had_it() {
        let mut scene = Scene::new(Mode::WriteBack);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(0));
        let standing = |scene: &Scene| {
            let state = &scene.engine.state;
            if_refused(state, key, state.cache.find(key))
        };
        assert_eq!(standing(&scene), IfRefused::Forgotten, "no block in the log");
        scene.write(0, 4096).0.unwrap();
        assert_eq!(standing(&scene), IfRefused::StaysDirty);
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(standing(&scene), IfRefused::StaysUnflushed);
        scene.end_held();
        assert_eq!(standing(&scene), IfRefused::Forgotten, "the origin has it");
    }

    #[test]
    fn a_write_through_a_failing_log_leaves_no_older_copy() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.settings(VolumeId::new(0)).mode = Mode::WriteThrough;
        scene.fail_times(8, "cache log 8192", DeviceError::Io);
        let (result, seen) = scene.write(0, 8192);
        assert_eq!((result, scene.not_clean()), (Ok(()), (0, 0)), "{seen:?}");
        assert!(scene.engine.state.device.is_out_of_service());
        assert!(scene.read(0, 4096).1.iter().any(|line| line.starts_with("origin read")));
    }

    #[test]
    fn a_partly_logged_write_does_not_pass_older_dirty_copies() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.flush().0.unwrap();
        scene.settings(VolumeId::new(0)).mode = Mode::WriteThrough;
        scene.fail_times(8, "cache log 16384", DeviceError::Io);
        scene.hold("origin write 0+16384");
        scene.begin(Operation::Write(Durability::Volatile), 0, 16384);
        assert!(scene.engine.state.device.is_out_of_service());
        let seen = scene.end_held();
        assert_eq!(scene.take_reply(), Some(Ok(())));
        assert!(!seen.iter().any(|line| line.starts_with("origin write")), "the older copy: {seen:?}");
        assert_eq!(scene.not_clean(), (0, 0));
    }
}
