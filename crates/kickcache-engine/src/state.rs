//! Everything the paths share, and the few acts that keep it consistent.
//!
//! Paths meet here and nowhere else: what one of them leaves for another is a [`Task`] on the agenda.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cache::Cache;
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::EngineSettings;
use crate::device::{DeviceOperation, Memory, Submission};
use crate::format::journal::Fact;
use crate::format::summary::Summary;
use crate::format::superblock::Superblock;
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::fills::Fills;
use crate::inflight::jobs::{Checkpoint, Reclaim, WaitingDiscard};
use crate::inflight::marking::Marking;
use crate::inflight::pulse::Pulses;
use crate::inflight::purpose::Purpose;
use crate::inflight::recovery::Recovery;
use crate::inflight::requests::{Requests, Stage};
use crate::inflight::submissions::Submissions;
use crate::inflight::unreadable::Unreadable;
use crate::inflight::writebacks::Writebacks;
use crate::journal::Journal;
use crate::log::{Append, Appended, Depth, Entry, Log, PendingKind};
use crate::order::Order;
use crate::policy::retention::Retention;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::request::{Durability, Errno, Reply};
use crate::stats::{CacheCounters, CacheHealth};
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BlockKey, ByteExtent, Location, Sequence, VolumeId, VolumeSet};
use crate::volumes::Volumes;
use crate::waiters::Waiters;

/// Whose block is appended to the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// A client's write, which waits, or a clean block, which is left out, while what is left of the log is reclaim's.
    Spare,
    /// One that stands in the log already and is not clean: it takes whatever room there is.
    Any,
}

/// What is appended to the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewBlock {
    pub(crate) claim: Claim,
    pub(crate) queue: Queue,
    pub(crate) entry: Entry,
    pub(crate) state: SlotState,
    pub(crate) waiter: Option<RequestSlot>,
    pub(crate) durability: Durability,
}

/// The engine's state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) uuid: [u8; 16],
    pub(crate) now: Instant,
    /// Time that passed while the thread slept with nothing to take: the only time that tells of devices.
    pub(crate) device_time: Instant,
    pub(crate) settings: EngineSettings,
    pub(crate) cache: Cache,
    pub(crate) log: Log,
    pub(crate) journal: Journal,
    pub(crate) order: Order,
    pub(crate) pool: Pool,
    pub(crate) retention: Retention,
    pub(crate) requests: Requests,
    pub(crate) submissions: Submissions,
    pub(crate) pulses: Pulses,
    pub(crate) fills: Fills,
    pub(crate) writebacks: Writebacks,
    pub(crate) reclaim: Reclaim,
    pub(crate) unreadable: Unreadable,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) recovery: Option<Box<Recovery>>,
    pub(crate) marking: Marking,
    pub(crate) volumes: Volumes,
    pub(crate) waiters: Waiters,
    pub(crate) agenda: VecDeque<Task>,
    pub(crate) outbox: VecDeque<Submission>,
    pub(crate) replies: VecDeque<Reply>,
    /// Segments that are full, and whose batches are not all durable.
    pub(crate) unsummed: Vec<Summary>,
    /// Discards whose *gone* records are on the way.
    pub(crate) discards: Vec<WaitingDiscard>,
    /// A flush is on the way that writeback waits for.
    pub(crate) writeback_waits: bool,
    /// Writes through the log that have not ended at the origin.
    pub(crate) through_writes: u32,
    /// No segment below this one is free.
    pub(crate) first_free: u32,
    /// Batches that failed on the cache device.
    pub(crate) write_errors: u32,
    /// The engine is being stopped: nothing new is begun.
    pub(crate) is_ending: bool,
    /// The newest record that says a block is *gone*.
    pub(crate) newest_gone: Sequence,
    pub(crate) counters: CacheCounters,
    pub(crate) health: CacheHealth,
}

impl State {
    pub(crate) fn new(now: Instant, superblock: &Superblock, settings: EngineSettings) -> State {
        let (uuid, geometry) = (superblock.uuid, superblock.geometry);
        let known: VolumeSet = superblock.volumes.iter().map(|volume| volume.id).collect();
        State {
            uuid,
            now,
            device_time: Instant::ZERO,
            settings,
            cache: Cache::new(geometry),
            log: Log::new(uuid, geometry, settings.fill_linger),
            journal: Journal::new(uuid, geometry, 0, 0),
            order: Order::new(Sequence::new(1), 0),
            pool: Pool::new(settings.pool_pages, known),
            volumes: Volumes::new(known),
            retention: Retention::new(geometry.capacity_blocks()),
            requests: Requests::new(),
            submissions: Submissions::new(),
            pulses: Pulses::default(),
            fills: Fills::new(),
            writebacks: Writebacks::new(),
            reclaim: Reclaim::default(),
            unreadable: Unreadable::default(),
            checkpoint: None,
            recovery: None,
            marking: Marking::default(),
            waiters: Waiters::default(),
            agenda: VecDeque::new(),
            outbox: VecDeque::new(),
            replies: VecDeque::new(),
            unsummed: Vec::new(),
            discards: Vec::new(),
            writeback_waits: false,
            through_writes: 0,
            first_free: 0,
            write_errors: 0,
            is_ending: false,
            newest_gone: Sequence::new(0),
            counters: CacheCounters::default(),
            health: CacheHealth::Good,
        }
    }

    /// What recovery knows so far.
    pub(crate) fn recovering(&mut self) -> &mut Recovery {
        self.recovery.as_deref_mut().expect("recovery is under way")
    }

    pub(crate) fn is_out_of_service(&self) -> bool {
        self.health == CacheHealth::OutOfService
    }

    /// One thing more that a request waits for.
    pub(crate) fn add_pending(&mut self, slot: RequestSlot) {
        self.requests.get_mut(slot).pending_count += 1;
    }

    /// One thing less; at zero the request ends or goes on.
    #[inline]
    pub(crate) fn end_pending(&mut self, slot: RequestSlot) {
        let pending = self.requests.get_mut(slot);
        pending.pending_count -= 1;
        if pending.pending_count > 0 {
            return;
        }
        match pending.stage {
            Stage::Simple => self.end_request(slot),
            Stage::Write(_) | Stage::Cursor { .. } => self.agenda.push_back(Task::NothingPending(slot)),
        }
    }

    /// One thing less, which failed.
    pub(crate) fn end_pending_with(&mut self, slot: RequestSlot, result: Result<(), Errno>) {
        if let Err(errno) = result {
            self.requests.get_mut(slot).error.get_or_insert(errno);
        }
        self.end_pending(slot);
    }

    /// Replies to a request.
    pub(crate) fn end_request(&mut self, slot: RequestSlot) {
        let pending = self.requests.remove(slot);
        let result = pending.error.map_or(Ok(()), Err);
        if result.is_err() {
            self.volumes.get_mut(pending.volume).counters.failed_requests += 1;
        }
        self.replies.push_back(Reply { id: pending.id, result, read_from: pending.read_from });
    }

    /// Writes the batches whose turn it is.
    pub(crate) fn write_due_batches(&mut self) {
        self.log.close_due(self.now);
        self.write_closed_batches(Depth::Bounded);
    }

    /// Writes everything that has gathered in the log.
    pub(crate) fn write_all_batches(&mut self) {
        self.log.close_all();
        self.write_closed_batches(Depth::All);
    }

    fn write_closed_batches(&mut self, depth: Depth) {
        while let Some(queue) = self.log.next_write(depth) {
            let sequence = self.order.assign_batch();
            let write = self.log.take_write(queue, sequence, self.durable());
            self.cache.segment_mut(write.segment).last_sequence = sequence;
            self.counters.batches += 1;
            let operation = DeviceOperation::WriteMetadata {
                offset: write.offset,
                bytes: write.header.into_boxed_slice(),
                pieces: write.pieces,
                durability: write.durability,
            };
            self.submit(Purpose::Batch { batch: write.slot }, operation);
        }
    }

    /// A block that stands in a batch not yet submitted is about to be superseded or forgotten. What the origin has is
    /// void; a dirty one is submitted first, so that its place in the order is before what follows (L-1): it may be
    /// acknowledged, and must not leave an older copy as the last word.
    fn submit_or_void(&mut self, location: Location) {
        match self.log.pending_kind(location) {
            Some(PendingKind::Clean) => self.log.void(location),
            Some(PendingKind::Dirty) => self.write_all_batches(),
            None => {}
        }
    }

    /// Forgets a block: whatever of it lies on the cache device is void once the record is durable.
    pub(crate) fn forget(&mut self, key: BlockKey) {
        let Some(location) = self.cache.find(key) else { return };
        self.submit_or_void(location);
        self.cache.remove(key);
        self.note_unused(key, location);
        if !mutant!(GoneNotRecorded) {
            self.record(Fact::Gone(key));
        }
        self.newest_gone = self.order.newest();
    }

    /// A block leaves or is superseded: was it prefetched for nothing?
    fn note_unused(&mut self, key: BlockKey, location: Location) {
        let written = self.cache.segments().get(self.cache.segment_of(location)).last_sequence;
        if self.cache.slots().is_prefetched(location)
            && let Some(volume) = self.volumes.find_mut(key.volume())
        {
            volume.window.on_useless(written, self.retention.capacity());
        }
    }

    /// Appends a block to the log; `None` if no segment is ready, and reclaim is told.
    pub(crate) fn append(&mut self, key: BlockKey, block: NewBlock) -> Option<Location> {
        let append = Append {
            queue: block.queue,
            entry: block.entry,
            waiter: block.waiter,
            durability: block.durability,
        };
        let old = self.cache.find(key);
        let absorbed = old.and_then(|location| {
            let slots = self.cache.slots();
            // What is on its way to the origin from there will be taken for what stands there.
            let may_be_replaced = slots.state(location) == block.state && !slots.is_in_sweep(location);
            if may_be_replaced { self.log.absorb(location, &append) } else { None }
        });
        let appended = match absorbed {
            Some(appended) => {
                self.cache.set_checksum(appended.location, block.entry.checksum);
                appended
            }
            None => {
                if block.claim == Claim::Spare && !self.has_spare_room(block.queue) {
                    self.agenda.push_back(Task::Reclaim);
                    return None;
                }
                if let Some(old) = old {
                    self.submit_or_void(old);
                }
                let Some(appended) = self.log.append(self.now, append) else {
                    self.agenda.push_back(Task::Reclaim);
                    return None;
                };
                self.place(key, &appended, &block);
                appended
            }
        };
        if let (Some(waiter), true) = (block.waiter, appended.joined) {
            self.add_pending(waiter);
        }
        Some(appended.location)
    }

    fn place(&mut self, key: BlockKey, appended: &Appended, block: &NewBlock) {
        let location = appended.location;
        if let Some(segment) = appended.opened {
            let found = self.cache.segment_mut(segment);
            debug_assert!(found.state == SegmentState::Ready, "only ready segments are opened");
            found.state = SegmentState::Open;
            found.queue = block.queue;
            found.used_since = None;
            self.cache.set_headers(segment, 0);
            self.agenda.push_back(Task::Reclaim);
        }
        appended.header.into_iter().for_each(|segment| self.cache.add_header(segment));
        if let Some(older) = block.entry.older {
            self.pin(older);
        }
        if let Some(old) = self.cache.insert(key, location, block.entry.checksum, block.state) {
            self.note_unused(key, old);
        }
    }

    /// An access to an origin ended: others may have their turn.
    pub(crate) fn release_ticket(&mut self, volume: VolumeId, ticket: Ticket) {
        self.volumes.get_mut(volume).queue.release(ticket);
        self.agenda.push_back(Task::Writeback(volume));
    }

    /// Where the data of a block stands in memory, if its batch has not landed.
    pub(crate) fn pending_memory(&self, location: Location) -> Option<Memory> {
        let segment = self.cache.segment_of(location);
        match self.cache.segments().get(segment).state {
            SegmentState::Open => self.log.memory_of(location),
            SegmentState::Free
            | SegmentState::Opening
            | SegmentState::Ready
            | SegmentState::Sealing
            | SegmentState::Sealed
            | SegmentState::Reclaiming
            | SegmentState::Retired => None,
        }
    }

    /// Whether the copy at a location would survive a power cut.
    pub(crate) fn is_durable(&self, location: Location) -> bool {
        let segment = self.cache.segment_of(location);
        let sequence = if self.log.is_open(segment) {
            self.log.sequence_of(segment, location)
        } else {
            Some(self.cache.segments().get(segment).last_sequence)
        };
        sequence.is_some_and(|sequence| self.order.is_durable(sequence))
    }

    /// Whether a change of an extent must wait: a write holds it, or the journal has no room for its records.
    pub(crate) fn must_stall(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        self.waiters.is_locked(volume, extent) || (!self.journal.has_room() && !self.is_out_of_service())
    }

    /// The request begins again when something changed; a checkpoint makes room in the journal.
    pub(crate) fn stall(&mut self, slot: RequestSlot) {
        self.waiters.stall(slot);
        self.agenda.push_back(Task::Checkpoint);
    }

    /// Requests that wait for pages, journal room or a lock try again.
    pub(crate) fn wake_stalled(&mut self) {
        self.agenda.extend(self.waiters.take_stalled().map(Task::Begin));
    }

    /// The cache device cannot be trusted with anything new. What it alone holds goes to the origins.
    pub(crate) fn take_out_of_service(&mut self) {
        if self.is_out_of_service() {
            return;
        }
        self.health = CacheHealth::OutOfService;
        self.begin_marking();
        for volume in self.volumes.ids() {
            let found = self.volumes.get_mut(volume);
            found.draining = true;
            found.flush.want();
            self.agenda.push_back(Task::Writeback(volume));
        }
        for waiter in self.order.give_up() {
            self.agenda.push_back(Task::NotDurable(waiter));
        }
        // They must not keep what landed from becoming durable: writeback waits for that.
        self.journal.give_up().into_iter().for_each(|record| self.order.land(record.sequence));
        self.agenda.push_back(Task::Append);
        self.wake_stalled();
    }
}
