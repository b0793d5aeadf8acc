//! The blocks of a cut on their way to the journal, and the commit of the group.

use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::format::redo::{CHUNK_BLOCKS_MAX, RedoBlock, RedoChunk, RedoCommit, digest};
use crate::inflight::purpose::Purpose;
use crate::path::redo::cut;
use crate::pool::page_pieces;
use crate::redo::cut::{CutChunk, CutPhase};
use crate::redo::group::{Group, GroupChunk};
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;

/// Chunks of a cut in flight.
const CHUNKS_MAX: u32 = 4;

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
fn begin_chunk(state: &mut State, mut pages: Vec<crate::units::PageIndex>) {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    let number = cut.chunks.len();
    let members = cut.next_members();
    pages.split_off(members.len()).into_iter().for_each(|page| state.pool.release(page));
    let copies = members.iter().map(|member| state.cache.copy_at(member.key, member.location)).collect();
    let checksums = members.iter().map(|member| state.cache.slots().checksum(member.location)).collect();
    let mut places: Vec<_> = (0..members.len()).map(|at| (members[at].location, at)).collect();
    places.sort_unstable();
    let geometry = *state.cache.geometry();
    let is_next = |(one, _): &(crate::units::Location, usize),
                   (other, _): &(crate::units::Location, usize)| {
        *other == one.plus(1) && geometry.segment_of(*one) == geometry.segment_of(*other)
    };
    let reads: Vec<Vec<usize>> =
        places.chunk_by(is_next).map(|run| run.iter().map(|(_, at)| *at).collect()).collect();
    let missing = members.len();
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    cut.in_flight += 1;
    let firsts: Vec<_> = reads.iter().map(|read| members[read[0]].location).collect();
    let paged: Vec<Vec<_>> = reads.iter().map(|read| read.iter().map(|at| pages[*at]).collect()).collect();
    cut.chunks.push(CutChunk { members, copies, checksums, pages, missing, header: Vec::new() });
    for ((blocks, first), pages) in reads.into_iter().zip(firsts).zip(paged) {
        let operation = DeviceOperation::Read {
            device: Device::Cache,
            offset: geometry.byte_offset(first),
            pieces: Pieces::Many(page_pieces(&pages)),
            checksums: Checksums::Compute,
        };
        state.submit(Purpose::CutRead { chunk: number, blocks }, operation);
    }
}

/// A read of members has ended.
pub(crate) fn on_read(
    state: &mut State,
    chunk: usize,
    blocks: &[usize],
    result: Result<Data<'_>, DeviceError>,
) {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    let found = &mut cut.chunks[chunk];
    found.missing -= blocks.len();
    let is_read = found.missing == 0;
    let read = |number: usize| result.ok().and_then(|data| data.checksums.get(number).copied());
    let is_right = blocks.iter().enumerate().all(|(number, at)| read(number) == Some(found.checksums[*at]));
    let locations: Vec<_> = blocks.iter().map(|at| found.members[*at].location).collect();
    let wrong: Vec<_> = blocks
        .iter()
        .enumerate()
        .filter(|(number, at)| read(*number).is_some_and(|sum| sum != found.checksums[**at]))
        .map(|(_, at)| found.copies[*at])
        .collect();
    state.device.counters.errors += u64::from(result.is_err());
    for copy in wrong {
        if state.cache.is_alive(copy) && state.cache.slots().state(copy.location) == SlotState::Dirty {
            state.mark_damaged(copy.key, copy.location);
        }
    }
    locations.into_iter().for_each(|location| state.unpin(location));
    if !is_right {
        cut::abandon(state);
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
    let group = cut.number;
    let chunk = &mut cut.chunks[number];
    let blocks = chunk.members.iter().zip(&chunk.checksums);
    let blocks = blocks.map(|(member, sum)| RedoBlock { key: member.key, checksum: *sum }).collect();
    let header =
        RedoChunk { position, group, number: u32::try_from(number).expect("slots have 32 bits"), blocks };
    chunk.header = header.encode(uuid);
    let operation = DeviceOperation::WriteMetadata {
        device: Device::RedoJournal,
        offset: geometry.byte_offset(position),
        bytes: chunk.header.clone().into_boxed_slice(),
        pieces: page_pieces(&chunk.pages),
        durability: Durability::Volatile,
    };
    state.submit(Purpose::RedoChunk { chunk: number }, operation);
}

fn end_chunk(state: &mut State, number: usize) {
    let cut = state.redo().cut.as_mut().expect("a cut is in progress");
    cut.in_flight -= 1;
    let pages = core::mem::take(&mut cut.chunks[number].pages);
    pages.into_iter().for_each(|page| state.pool.release(page));
    state.wake_stalled();
}

/// The write of a chunk has ended. The journal has its blocks, which no later cut has unless the group is abandoned.
pub(crate) fn on_chunk(state: &mut State, number: usize, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    end_chunk(state, number);
    if result.is_err() {
        fail(state);
        return;
    }
    let cut = state.redo().cut.as_ref().expect("a cut is in progress");
    if cut.is_abandoned {
        return;
    }
    let copies = cut.chunks[number].copies.clone();
    for copy in copies {
        if state.cache.is_alive(copy) && state.cache.slots().state(copy.location) == SlotState::Dirty {
            state.cache.set_state(copy.location, SlotState::Unflushed);
        }
    }
}

fn fail(state: &mut State) {
    state.redo().counters.errors += 1;
    cut::abandon(state);
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
        digest: digest(cut.chunks.iter().map(|chunk| chunk.header.as_slice())),
    };
    let operation = DeviceOperation::WriteMetadata {
        device: Device::RedoJournal,
        offset: redo.geometry.byte_offset(position),
        bytes: commit.encode(redo.uuid).into_boxed_slice(),
        pieces: Vec::new(),
        durability: Durability::Durable,
    };
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
    let block = |(member, sum): (&crate::cache::cut::Member, &crate::units::Checksum)| RedoBlock {
        key: member.key,
        checksum: *sum,
    };
    let chunks: Vec<GroupChunk> = cut
        .chunks
        .into_iter()
        .map(|chunk| GroupChunk {
            blocks: chunk.members.iter().zip(&chunk.checksums).map(block).collect(),
            copies: chunk.copies,
        })
        .collect();
    redo.counters.committed_blocks += chunks.iter().map(|chunk| chunk.blocks.len() as u64).sum::<u64>();
    redo.groups.push_back(Group { number: cut.number, instant: cut.instant, start, end: redo.head, chunks });
}
