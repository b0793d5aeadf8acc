//! The oldest committed group written to the origins: chunks are read from the journal, and adjacent blocks written
//! together. After an error, or if the server of an origin was lost, the origin gets the whole group again.

use alloc::vec::Vec;

use crate::config::ORIGIN_DEPTH_MAX;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::inflight::applying::{ApplyWrite, ChunkPart};
use crate::inflight::origin::{AccessRequest, OriginAccess, Priority};
use crate::inflight::purpose::Purpose;
use crate::pool::{BufferQuota, page_pieces};
use crate::redo::group::{Applying, OriginFlushed};
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::time::{Instant, earlier};
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, PageIndex, VolumeId};

/// Most reads of the journal, and writes of an origin, in flight or queued, before another chunk is read.
const IN_FLIGHT_MAX: u32 = 8;

/// Continues the oldest group.
pub(super) fn go_on(state: &mut State) {
    let redo = state.redo();
    let Some(group) = redo.groups.front() else { return };
    if redo.applying.is_none() {
        redo.applying = Some(Applying::new(group));
    }
    let volumes: Vec<VolumeId> = applying(state).volumes.iter().map(|apply| apply.volume).collect();
    for volume in volumes {
        if state.volumes.find(volume).is_some() && state.may_go_on_with_groups() {
            go_on_with(state, volume);
        }
    }
}

fn applying(state: &mut State) -> &mut Applying {
    state.redo().applying.as_mut().expect("a group is being applied")
}

fn go_on_with(state: &mut State, volume: VolumeId) {
    loop {
        let chunk_count = state.redo().groups.front().map_or(0, |group| group.chunks.len());
        let (now, until) = (state.now, state.volumes.get(volume).backoff_until);
        let apply = applying(state).of(volume).expect("the volume has blocks in the group");
        if apply.must_restart {
            if apply.in_flight > 0 || now < until {
                return;
            }
            (apply.must_restart, apply.next, apply.flushed) = (false, 0, OriginFlushed::No);
        }
        if apply.next < chunk_count {
            if apply.in_flight >= IN_FLIGHT_MAX || !read_chunk(state, volume) {
                return;
            }
        } else {
            if apply.in_flight == 0 && apply.flushed == OriginFlushed::No && mutant!(ReleaseBeforeFlush) {
                apply.flushed = OriginFlushed::Yes;
            }
            if apply.in_flight == 0 && apply.flushed == OriginFlushed::No {
                apply.flushed = OriginFlushed::InFlight;
                apply.in_flight += 1;
                let operation = DeviceOperation::Flush { device: Device::Origin(volume) };
                state.submit(Purpose::ApplyFlush { volume }, operation);
            }
            return;
        }
    }
}

/// Reads the volume's part of its next chunk; `false` if there are no pages for it.
fn read_chunk(state: &mut State, volume: VolumeId) -> bool {
    let redo = state.redo();
    let geometry = redo.geometry;
    let group = redo.groups.front().expect("a group is being applied");
    let start = group.start;
    let apply = redo.applying.as_mut().and_then(|applying| applying.of(volume));
    let apply = apply.expect("the volume has blocks in the group");
    let chunk = apply.next;
    let blocks = &group.chunks[chunk];
    let first = blocks.partition_point(|block| block.key.volume() < volume);
    let count = blocks[first..].partition_point(|block| block.key.volume() == volume);
    if count == 0 {
        apply.next += 1;
        return true;
    }
    let Some(pages) = state.pool.take_for(volume, count, BufferQuota::All) else { return false };
    let apply = applying(state).of(volume).expect("the volume has blocks in the group");
    apply.next += 1;
    apply.in_flight += 1;
    let operation = DeviceOperation::Read {
        device: Device::RedoJournal,
        offset: geometry.byte_offset(start + chunk as u64) + (first as u64 + 1) * BLOCK_SIZE,
        pieces: Pieces::Many(page_pieces(&pages)),
        checksums: Checksums::Compute,
    };
    state.submit(Purpose::ApplyRead(ChunkPart { volume, chunk, first, pages }), operation);
    true
}

/// A part of a chunk was read: its runs of adjacent blocks are written to the origin.
pub(crate) fn on_read(state: &mut State, part: ChunkPart, result: Result<Data<'_>, DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let ChunkPart { volume, chunk, first, pages } = part;
    let group = state.redo().groups.front().expect("a group is being applied");
    let blocks: Vec<_> = group.chunks[chunk][first..][..pages.len()].to_vec();
    let is_right =
        result.is_ok_and(|data| data.checksums.iter().eq(blocks.iter().map(|block| &block.checksum)));
    let apply = applying(state).of(volume).expect("the volume has blocks in the group");
    apply.in_flight -= 1;
    if !is_right || apply.must_restart {
        apply.must_restart = true;
        pages.into_iter().for_each(|page| state.pool.release(page));
        if !is_right {
            state.redo().counters.errors += 1;
            let now = state.now;
            state.volumes.get_mut(volume).rest_after_origin_error(now);
        }
        return;
    }
    let mut pages = pages.into_iter();
    for run in blocks.chunk_by(|one, other| other.key.block() == one.key.block().plus(1)) {
        write_run(state, run[0].key, pages.by_ref().take(run.len()).collect());
    }
}

fn write_run(state: &mut State, first: BlockKey, pages: Vec<PageIndex>) {
    let (volume, offset) = (first.volume(), first.block().byte_offset());
    let extent = ByteExtent { start: offset, length: pages.len() as u64 * BLOCK_SIZE };
    applying(state).of(volume).expect("the volume has blocks in the group").in_flight += 1;
    let request = AccessRequest { extent, access: OriginAccess::Write, priority: Priority::Background };
    let found = state.volumes.get_mut(volume);
    let ticket = found.queue.enqueue(request);
    let operation = DeviceOperation::Write {
        device: Device::Origin(volume),
        offset,
        pieces: Pieces::Many(page_pieces(&pages)),
        durability: Durability::Volatile,
    };
    found.queue.set_ready(ticket, operation, Purpose::ApplyWrite(ApplyWrite { volume, ticket, pages }));
}

/// A write of a run has ended.
pub(crate) fn on_written(state: &mut State, write: ApplyWrite, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let ApplyWrite { volume, ticket, pages } = write;
    let count = pages.len() as u64;
    pages.into_iter().for_each(|page| state.pool.release(page));
    let apply = applying(state).of(volume).expect("the volume has blocks in the group");
    apply.in_flight -= 1;
    let found = state.volumes.get_mut(volume);
    match result {
        Ok(()) => found.counters.writeback_blocks += count,
        Err(_) => fail(state, volume),
    }
    state.release_ticket(volume, ticket);
    state.wake_stalled();
}

fn fail(state: &mut State, volume: VolumeId) {
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    found.counters.origin_errors += 1;
    found.rest_after_origin_error(now);
    if !mutant!(ApplyErrorIgnored) {
        state.apply_again(volume);
    }
}

impl State {
    /// The origin may lack writes of the group: it gets the whole group again.
    pub(crate) fn apply_again(&mut self, volume: VolumeId) {
        let applying = self.redo.as_mut().and_then(|redo| redo.applying.as_mut());
        let apply = applying.filter(|applying| applying.released == 0 && !applying.is_durable());
        if let Some(apply) = apply.and_then(|applying| applying.of(volume)) {
            apply.must_restart = true;
            self.agenda.push_back(Task::Redo);
        }
    }
}

/// The flush of an origin has ended.
pub(crate) fn on_flushed(state: &mut State, volume: VolumeId, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let apply = applying(state).of(volume).expect("the volume has blocks in the group");
    apply.in_flight -= 1;
    if result.is_err() {
        fail(state, volume);
        return;
    }
    if !apply.must_restart {
        apply.flushed = OriginFlushed::Yes;
    }
}

/// When the group may continue after an error of an origin.
pub(crate) fn retry_at(state: &State) -> Option<Instant> {
    let applying = state.redo.as_ref()?.applying.as_ref()?;
    let waits = applying.volumes.iter().filter(|apply| apply.must_restart && apply.in_flight == 0);
    let until = waits.filter_map(|apply| Some(state.volumes.find(apply.volume)?.backoff_until));
    until.map(Some).fold(None, earlier).filter(|_| state.may_go_on_with_groups())
}

const _: () = assert!((IN_FLIGHT_MAX as usize) < ORIGIN_DEPTH_MAX);
