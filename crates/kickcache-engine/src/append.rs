//! Appends blocks to the log and drops blocks; writes the batches that have gathered.

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::device::{Device, DeviceOperation, Memory};
use crate::format::journal::Fact;
use crate::ids::RequestSlot;
use crate::inflight::purpose::Purpose;
use crate::log::{Append, Appended, Depth, Entry, PendingKind};
use crate::queue::Queue;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, Location};

/// The share of the log that a block may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Not the space that is reserved for reclaim.
    Spare,
    /// Any space.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewBlock {
    pub(crate) claim: Claim,
    pub(crate) queue: Queue,
    pub(crate) entry: Entry,
    pub(crate) state: SlotState,
    pub(crate) waiter: Option<RequestSlot>,
    pub(crate) durability: Durability,
}

impl State {
    pub(crate) fn write_due_batches(&mut self) {
        self.device.log.close_due(self.now);
        self.write_closed_batches(Depth::Bounded);
    }

    pub(crate) fn write_all_batches(&mut self) {
        self.device.log.close_all();
        self.write_closed_batches(Depth::All);
    }

    fn write_closed_batches(&mut self, depth: Depth) {
        while let Some(queue) = self.device.log.next_write(depth) {
            let sequence = self.device.order.assign_batch();
            let write = self.device.log.take_write(queue, sequence, self.device.durable());
            self.cache.segment_mut(write.segment).last_sequence = sequence;
            self.device.counters.batches += 1;
            let operation = DeviceOperation::WriteMetadata {
                device: Device::Cache,
                offset: write.offset,
                bytes: write.header.into_boxed_slice(),
                pieces: write.pieces,
                durability: write.durability,
            };
            self.submit(Purpose::Batch { batch: write.slot }, operation);
        }
    }

    /// Prepares a block of a batch that is not yet submitted to be superseded or dropped. The batch of a dirty block is
    /// submitted first, so that it precedes all later changes of the block (L-1).
    fn submit_or_void(&mut self, location: Location) {
        match self.device.log.pending_kind(location) {
            Some(PendingKind::Clean) => self.device.log.void(location),
            Some(PendingKind::Dirty) => self.write_all_batches(),
            None => {}
        }
    }

    /// Submits the batch of a block before the record that the block is clean: recovery treats the block as dirty if the
    /// batch has the higher number.
    pub(crate) fn submit_pending(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        let is_open = self.cache.segments().get(segment).state == SegmentState::Open;
        if is_open && self.device.log.pending_kind(location).is_some() && !mutant!(CleanBeforeItsBatch) {
            self.write_all_batches();
        }
    }

    /// Drops a block, if it is cached: all its copies on the cache device are void once its record is durable. Out of
    /// service, there is no record.
    pub(crate) fn forget(&mut self, key: BlockKey) {
        let Some(location) = self.cache.find(key) else { return };
        self.submit_or_void(location);
        self.cache.remove(key);
        self.note_unused(key, location);
        if !mutant!(GoneNotRecorded) {
            self.device.record(Fact::Gone(key));
        }
        self.device.note_gone();
    }

    fn note_unused(&mut self, key: BlockKey, location: Location) {
        let written = self.cache.segments().get(self.cache.segment_of(location)).last_sequence;
        if self.cache.slots().is_read_ahead(location)
            && let Some(volume) = self.volumes.find_mut(key.volume())
        {
            volume.window.on_useless(written, self.retention.capacity());
        }
    }

    /// Appends a block to the log, or replaces its data in a batch that is not yet submitted. Returns `None` and
    /// schedules reclaim if there is no space.
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
            // If a write is to store the old data on the origin, its end would count as that of the new data.
            let may_be_replaced = slots.state(location) == block.state
                && (!slots.is_in_sweep(location) || mutant!(SweptAbsorbed));
            if may_be_replaced { self.device.log.absorb(location, &append) } else { None }
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
                let Some(appended) = self.device.log.append(self.now, append) else {
                    self.agenda.push_back(Task::Reclaim);
                    return None;
                };
                self.place(key, &appended, &block);
                appended
            }
        };
        if let (Some(waiter), true) = (block.waiter, appended.joined) {
            self.requests.add_pending(waiter);
        }
        Some(appended.location)
    }

    fn place(&mut self, key: BlockKey, appended: &Appended, block: &NewBlock) {
        let location = appended.location;
        if let Some(segment) = appended.opened {
            let found = self.cache.segment_mut(segment);
            debug_assert!(found.state == SegmentState::Ready, "only ready segments are opened");
            found.queue = block.queue;
            found.used_since = None;
            self.cache.set_segment_state(segment, SegmentState::Open);
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

    /// The memory of a block's data, if its batch has not landed.
    pub(crate) fn pending_memory(&self, location: Location) -> Option<Memory> {
        let segment = self.cache.segment_of(location);
        match self.cache.segments().get(segment).state {
            SegmentState::Open => self.device.log.memory_of(location),
            SegmentState::Free
            | SegmentState::Opening
            | SegmentState::Ready
            | SegmentState::Sealing
            | SegmentState::Sealed
            | SegmentState::Reclaiming
            | SegmentState::Retired => None,
        }
    }

    /// Whether the copy at a location is known to survive a power cut.
    pub(crate) fn is_durable(&self, location: Location) -> bool {
        let segment = self.cache.segment_of(location);
        let sequence = if self.device.log.is_open(segment) {
            self.device.log.sequence_of(segment, location)
        } else {
            Some(self.cache.segments().get(segment).last_sequence)
        };
        sequence.is_some_and(|sequence| self.device.order.is_durable(sequence))
    }
}
