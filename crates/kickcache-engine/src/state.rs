//! The state that the paths share.
//!
//! Paths use each other's methods of [`State`], or leave work for each other as a [`Task`] on the agenda.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cache::Cache;
use crate::cache_device::CacheDevice;
use crate::config::EngineSettings;
use crate::format::superblock::Superblock;
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::fills::Fills;
use crate::inflight::growth::Growth;
use crate::inflight::jobs::Reclaim;
use crate::inflight::marking::Marking;
use crate::inflight::recovery::Recovery;
use crate::inflight::requests::{Requests, Stage};
use crate::inflight::searching::Searching;
use crate::inflight::submissions::Submissions;
use crate::inflight::unreadable::Unreadable;
use crate::inflight::writebacks::Writebacks;
use crate::policy::retention::Retention;
use crate::policy::wear::Wear;
use crate::pool::Pool;
use crate::redo::Redo;
use crate::request::{Errno, Reply};
use crate::stats::CacheHealth;
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BlockKey, ByteExtent, VolumeId, VolumeSet};
use crate::volumes::Volumes;
use crate::waiters::Waiters;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: Instant,
    /// The clock that measures the load of the cache device.
    pub(crate) device_time: Instant,
    pub(crate) settings: EngineSettings,
    pub(crate) cache: Cache,
    pub(crate) device: CacheDevice,
    pub(crate) pool: Pool,
    pub(crate) retention: Retention,
    pub(crate) wear: Wear,
    pub(crate) requests: Requests,
    pub(crate) submissions: Submissions,
    pub(crate) fills: Fills,
    pub(crate) writebacks: Writebacks,
    pub(crate) reclaim: Reclaim,
    pub(crate) unreadable: Unreadable,
    pub(crate) searching: Searching,
    pub(crate) recovery: Option<Box<Recovery>>,
    pub(crate) marking: Marking,
    pub(crate) growth: Option<Growth>,
    pub(crate) redo: Option<Box<Redo>>,
    pub(crate) volumes: Volumes,
    pub(crate) waiters: Waiters,
    pub(crate) agenda: VecDeque<Task>,
    /// When gathered records are written even if they are few.
    pub(crate) records_due: Option<Instant>,
    pub(crate) is_ending: bool,
    /// Blocks that are dropped when the cache device is put out of service.
    pub(crate) overtaken: Vec<BlockKey>,
}

impl State {
    pub(crate) fn new(now: Instant, superblock: &Superblock, settings: EngineSettings) -> State {
        let geometry = superblock.geometry;
        let known: VolumeSet = superblock.volumes.iter().map(|volume| volume.id).collect();
        State {
            now,
            device_time: Instant::ZERO,
            settings,
            cache: Cache::open(geometry, superblock.unopened),
            device: CacheDevice::new(superblock, &settings),
            pool: Pool::new(settings.pool_pages, known),
            volumes: Volumes::new(known),
            retention: Retention::new(geometry.capacity_blocks()),
            wear: Wear::new(now, settings.write_budget),
            requests: Requests::new(),
            submissions: Submissions::new(),
            fills: Fills::new(),
            writebacks: Writebacks::new(),
            reclaim: Reclaim::default(),
            unreadable: Unreadable::default(),
            searching: Searching::new(settings.search_steps),
            recovery: None,
            marking: Marking::default(),
            growth: None,
            redo: None,
            waiters: Waiters::default(),
            agenda: VecDeque::new(),
            records_due: None,
            is_ending: false,
            overtaken: Vec::new(),
        }
    }

    pub(crate) fn recovering(&mut self) -> &mut Recovery {
        self.recovery.as_deref_mut().expect("recovery is in progress")
    }

    #[inline]
    pub(crate) fn end_pending(&mut self, slot: RequestSlot) {
        let pending = self.requests.get_mut(slot);
        pending.pending_count -= 1;
        if pending.pending_count > 0 {
            return;
        }
        match pending.stage {
            Stage::Simple => self.end_request(slot),
            Stage::Write(_) | Stage::Cursor(_) => self.agenda.push_back(Task::NothingPending(slot)),
        }
    }

    pub(crate) fn end_pending_with(&mut self, slot: RequestSlot, result: Result<(), Errno>) {
        if let Err(errno) = result {
            self.requests.get_mut(slot).fail(errno);
        }
        self.end_pending(slot);
    }

    pub(crate) fn end_request(&mut self, slot: RequestSlot) {
        let pending = self.requests.remove(slot);
        let result = pending.result();
        if result.is_err() {
            self.volumes.get_mut(pending.volume).counters.failed_requests += 1;
        }
        self.requests.reply(Reply { id: pending.id, result, read_from: pending.read_from });
    }

    pub(crate) fn release_ticket(&mut self, volume: VolumeId, ticket: Ticket) {
        self.volumes.get_mut(volume).queue.release(ticket);
        self.agenda.push_back(Task::Writeback(volume));
    }

    /// Whether a change of an extent must wait.
    pub(crate) fn must_stall(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        self.waiters.is_locked(volume, extent) || self.device.is_journal_full()
    }

    /// The request begins again when a resource is free.
    pub(crate) fn stall(&mut self, slot: RequestSlot) {
        self.waiters.stall(slot);
        self.agenda.push_back(Task::Checkpoint);
    }

    pub(crate) fn wake_stalled(&mut self) {
        self.agenda.extend(self.waiters.take_stalled().map(Task::Begin));
    }

    /// Puts the cache device out of service, unless it is already.
    pub(crate) fn take_out_of_service(&mut self) {
        if self.device.is_out_of_service() {
            return;
        }
        self.device.health = CacheHealth::OutOfService;
        self.abandon_cut();
        for key in core::mem::take(&mut self.overtaken) {
            self.cache.remove(key);
        }
        self.begin_marking();
        for volume in self.volumes.ids() {
            let found = self.volumes.get_mut(volume);
            found.draining = true;
            found.flush.want();
            self.agenda.push_back(Task::Writeback(volume));
        }
        for waiter in self.device.order.give_up() {
            self.agenda.push_back(Task::NotDurable(waiter));
        }
        // Records that are not written must not prevent landed data from becoming durable, because writeback waits for
        // durable data.
        self.device.journal.give_up().into_iter().for_each(|record| self.device.order.land(record.sequence));
        self.agenda.push_back(Task::Append);
        self.wake_stalled();
    }
}
