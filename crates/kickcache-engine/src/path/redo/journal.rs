//! The blocks of a cut on the way to the journal, and the commit of the group.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::cut_search::CutMember;
use crate::cache::slots::SlotState;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::format::bytes::crc32c;
use crate::format::redo::{CHUNK_BLOCKS_MAX, RedoBlock, RedoChunk, RedoCommit, digest};
use crate::inflight::purpose::Purpose;
use crate::pool::page_pieces;
use crate::redo::cut::{CutChunk, CutPhase};
use crate::redo::group::RedoGroup;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{Checksum, Location, PageIndex};

/// Most reads of a chunk that are repeated after an error, block by block.
const REPEATED_MAX: u32 = 64;
/// Chunks of a cut in flight.
const CHUNKS_MAX: u32 = 4;

impl State {
    fn is_dirty_copy(&self, copy: BlockCopy) -> bool {
        self.cache.is_alive(copy) && self.cache.slots().state(copy.location) == SlotState::Dirty
    }
}

/// Starts the next chunks of the cut, or its flush.
pub(super) fn go_on(state: &mut State) {
    loop {
        let Some(cut) = &state.redo().cut else { return };
        if cut.phase != CutPhase::Writing || cut.is_abandoned || cut.in_flight >= CHUNKS_MAX {
            return;
        }
        if cut.is_divided() {
            if cut.in_flight == 0 {
                flush(state);
            }
            return;
        }
        let Some(pages) = state.pool.take(CHUNK_BLOCKS_MAX) else { return };
        begin_chunk(state, pages);
    }
}

/// Reads the members of the next chunk from the cache device, adjacent ones in one read.
fn begin_chunk(state: &mut State, mut pages: Vec<PageIndex>) {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    let (number, members) = (cut.chunks.len(), cut.next_members());
    pages.split_off(members.len()).into_iter().for_each(|page| state.pool.release(page));
    let block = |member: &CutMember| RedoBlock {
        key: member.key,
        checksum: state.cache.slots().checksum(member.location),
    };
    let blocks: Vec<_> = members.iter().map(block).collect();
    let copies: Vec<_> =
        members.iter().map(|member| state.cache.copy_at(member.key, member.location)).collect();
    let geometry = *state.cache.geometry();
    let mut places: Vec<(Location, usize)> =
        members.iter().zip(0..).map(|(member, at)| (member.location, at)).collect();
    places.sort_unstable();
    let is_next = |(one, _): &(Location, usize), (other, _): &(Location, usize)| {
        *other == one.plus(1) && geometry.segment_of(*one) == geometry.segment_of(*other)
    };
    let runs: Vec<Vec<usize>> =
        places.chunk_by(is_next).map(|run| run.iter().map(|(_, at)| *at).collect()).collect();
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    cut.in_flight += 1;
    cut.chunks.push(blocks);
    cut.header_sums.push(Checksum::new(0));
    cut.flights.insert(number, CutChunk { missing: copies.len(), copies, pages, repeated: 0 });
    runs.iter().for_each(|run| read_run(state, number, run));
}

/// Reads members that are adjacent in the log.
fn read_run(state: &mut State, chunk: usize, run: &[usize]) {
    let cut = state.redo().cut.as_ref().expect("a cut is in progress");
    let CutChunk { copies, pages, .. } = &cut.flights[&chunk];
    let first = copies[run[0]].location;
    let pages: Vec<PageIndex> = run.iter().map(|at| pages[*at]).collect();
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(first),
        pieces: Pieces::Many(page_pieces(&pages)),
        checksums: Checksums::Compute,
    };
    state.submit(Purpose::CutRead { chunk, blocks: run.to_vec() }, operation);
}

/// A read of members has ended.
pub(crate) fn on_read(
    state: &mut State,
    chunk: usize,
    blocks: &[usize],
    result: Result<Data<'_>, DeviceError>,
) {
    state.device.counters.errors += u64::from(result.is_err());
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    let flight = cut.flights.get_mut(&chunk).expect("the chunk is in flight");
    if result.is_err() && !cut.is_abandoned && flight.repeated < REPEATED_MAX {
        flight.repeated += 1;
        blocks.iter().for_each(|block| read_run(state, chunk, &[*block]));
        return;
    }
    flight.missing -= blocks.len();
    let is_read = flight.missing == 0;
    let read: Vec<(BlockCopy, Option<bool>)> = blocks
        .iter()
        .enumerate()
        .map(|(number, at)| {
            let sum = result.ok().and_then(|data| data.checksums.get(number).copied());
            (flight.copies[*at], sum.map(|sum| sum == cut.chunks[chunk][*at].checksum))
        })
        .collect();
    for (copy, is_right) in &read {
        if *is_right == Some(false) && state.is_dirty_copy(*copy) {
            state.mark_damaged(copy.key, copy.location);
        }
        state.unpin(copy.location);
    }
    if read.iter().any(|(_, is_right)| *is_right != Some(true)) {
        state.abandon_cut();
    }
    if is_read {
        end_reads(state, chunk);
    }
    state.agenda.push_back(Task::Redo);
}

/// All members of a chunk were read: they are written to the journal, unless the cut was abandoned.
fn end_reads(state: &mut State, number: usize) {
    let redo = state.redo();
    let (uuid, geometry) = (redo.uuid, redo.geometry);
    let position = redo.head + number as u64;
    let cut = redo.cut.as_mut().expect("a cut is in progress");
    if cut.is_abandoned {
        end_chunk(state, number);
        return;
    }
    let header = RedoChunk {
        position,
        group: cut.number,
        number: u32::try_from(number).expect("slots have 32 bits"),
        blocks: cut.chunks[number].clone(),
    };
    let header = header.encode(uuid);
    cut.header_sums[number] = crc32c(&header);
    let operation = DeviceOperation::WriteMetadata {
        device: Device::RedoJournal,
        offset: geometry.byte_offset(position),
        bytes: header.into_boxed_slice(),
        pieces: page_pieces(&cut.flights[&number].pages),
        durability: Durability::Volatile,
    };
    state.submit(Purpose::RedoChunk { chunk: number }, operation);
}

/// The chunk is not in flight any more; returns its copies.
fn end_chunk(state: &mut State, number: usize) -> Vec<BlockCopy> {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    cut.in_flight -= 1;
    let CutChunk { copies, pages, .. } = cut.flights.remove(&number).expect("the chunk is in flight");
    pages.into_iter().for_each(|page| state.pool.release(page));
    state.wake_stalled();
    copies
}

/// The write of a chunk has ended: no later cut has its blocks, unless the group is abandoned.
pub(crate) fn on_chunk(state: &mut State, number: usize, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let copies = end_chunk(state, number);
    if result.is_err() {
        fail(state);
        return;
    }
    let cut = state.redo().cut.as_ref().expect("a cut is in progress");
    if cut.is_abandoned {
        return;
    }
    for copy in copies {
        if state.is_dirty_copy(copy) {
            state.cache.begin_writeback(copy.location);
        }
    }
}

fn fail(state: &mut State) {
    state.redo().counters.errors += 1;
    state.abandon_cut();
}

/// All chunks are written: the journal makes them durable before the commit.
fn flush(state: &mut State) {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    if cut.chunks.is_empty() {
        end_empty(state);
        return;
    }
    cut.phase = CutPhase::Flushing;
    cut.in_flight += 1;
    if mutant!(CommitBeforeData) {
        on_flushed(state, Ok(()));
        return;
    }
    state.submit(Purpose::RedoFlush, DeviceOperation::Flush { device: Device::RedoJournal });
}

/// All blocks of the cut were clean or lost when their segments were examined.
fn end_empty(state: &mut State) {
    state.redo().cut = None;
    state.agenda.push_back(Task::Redo);
}

/// The flush of the journal has ended: the group is committed next (P-1).
pub(crate) fn on_flushed(state: &mut State, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let redo = state.redo();
    let cut = redo.cut.as_mut().expect("a cut is in progress");
    cut.in_flight -= 1;
    if result.is_err() {
        fail(state);
        return;
    }
    if cut.is_abandoned {
        return;
    }
    cut.phase = CutPhase::Committing;
    cut.in_flight += 1;
    let position = redo.head + cut.chunks.len() as u64;
    let commit = RedoCommit {
        position,
        group: cut.number,
        chunk_count: u32::try_from(cut.chunks.len()).expect("slots have 32 bits"),
        instant: cut.instant,
        digest: digest(&cut.header_sums),
    };
    let operation = DeviceOperation::WriteMetadata {
        device: Device::RedoJournal,
        offset: redo.geometry.byte_offset(position),
        bytes: commit.encode(redo.uuid).into_boxed_slice(),
        pieces: Vec::new(),
        durability: if mutant!(CommitVolatile) { Durability::Volatile } else { Durability::Durable },
    };
    if mutant!(ApplyBeforeCommit) {
        on_committed(state, Ok(()));
        return;
    }
    state.submit(Purpose::RedoCommit, operation);
}

/// The write of the commit has ended. After an error, the group may be committed or not: it is abandoned, and the next
/// one replaces it on the journal.
pub(crate) fn on_committed(state: &mut State, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    cut.in_flight -= 1;
    if result.is_err() {
        fail(state);
        return;
    }
    if cut.is_abandoned {
        return;
    }
    let redo = state.redo();
    let cut = redo.cut.take().expect("a cut is in progress");
    let start = redo.head;
    redo.head += cut.chunks.len() as u64 + 1;
    redo.committed = cut.instant;
    redo.counters.committed_groups += 1;
    let chunks = cut.chunks;
    redo.counters.committed_blocks += chunks.iter().map(|blocks| blocks.len() as u64).sum::<u64>();
    redo.groups.push_back(RedoGroup {
        number: cut.number,
        instant: cut.instant,
        start,
        end: redo.head,
        chunks,
    });
}
