//! One virtio queue: the addresses of its rings, the heads in flight, and its eventfds.

use std::collections::VecDeque;
use std::io;
use std::num::Wrapping;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use vhost::vhost_user::message::VhostUserVringAddr;
use virtio_bindings::bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VRING_AVAIL_F_NO_INTERRUPT};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::chain::{QueueFault, Table};
use super::features::{QUEUE_SIZE_MAX, has};
use super::inflight::Inflight;
use super::memory::GuestRam;
use super::message::ProtocolError;
use crate::inflight::Recovered;

pub(super) struct Vring {
    index: u16,
    queue: Queue,
    addresses: Option<VhostUserVringAddr>,
    pub(super) kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    err: Option<OwnedFd>,
    pub(super) enabled: bool,
    stage: QueuePhase,
    /// The number of starts: an answer to a request of an earlier life is dropped.
    pub(super) life: u32,
    taken: Vec<bool>,
    pub(super) in_flight: u32,
    /// Heads that were left in flight, and that were not taken again yet.
    again: VecDeque<u16>,
    counter: u64,
    inflight: Option<Arc<Inflight>>,
    /// Whether the queue waits for a kick before it is examined for requests.
    armed: bool,
    /// Whether the guest may need an interrupt: since the last check, the queue has started, or its used ring
    /// has new entries.
    used_changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueuePhase {
    /// Not started, or stopped by the front end.
    Stopped,
    Started,
    /// No new requests are accepted; those in flight complete.
    Stopping,
    /// The guest broke the rules of the queue, which is stopped.
    Broken,
}

impl Vring {
    pub(super) fn new(index: u16) -> Vring {
        Vring {
            index,
            queue: Queue::new(QUEUE_SIZE_MAX).expect("a power of two"),
            addresses: None,
            kick: None,
            call: None,
            err: None,
            enabled: false,
            stage: QueuePhase::Stopped,
            life: 0,
            taken: Vec::new(),
            in_flight: 0,
            again: VecDeque::new(),
            counter: 0,
            inflight: None,
            armed: false,
            used_changed: false,
        }
    }

    /// A new queue, with a life that answers to requests of the previous queue do not match.
    pub(super) fn after(index: u16, life: u32) -> Vring {
        Vring { life, ..Vring::new(index) }
    }

    pub(super) fn set_size(&mut self, size: u32) -> Result<(), ProtocolError> {
        let bad = || ProtocolError::Value { what: "a queue size of", found: size.into() };
        let size = u16::try_from(size).map_err(|_| bad())?;
        if self.is_started() {
            return Err(ProtocolError::Value { what: "a new size of a started queue,", found: size.into() });
        }
        self.queue.try_set_size(size).map_err(|_| bad())
    }

    pub(super) fn set_addresses(
        &mut self,
        addresses: VhostUserVringAddr,
        ram: &GuestRam,
    ) -> Result<(), ProtocolError> {
        let guest = |user: u64| {
            ram.guest_address(user).ok_or(ProtocolError::Value { what: "a ring at the address", found: user })
        };
        let (table, avail, used) =
            (guest(addresses.descriptor)?, guest(addresses.available)?, guest(addresses.used)?);
        let set = self.queue.try_set_desc_table_address(table);
        let set = set.and_then(|()| self.queue.try_set_avail_ring_address(avail));
        let set = set.and_then(|()| self.queue.try_set_used_ring_address(used));
        let misplaced = ProtocolError::Value { what: "a ring at the address", found: addresses.descriptor };
        set.map_err(|_| misplaced)?;
        self.addresses = Some(addresses);
        Ok(())
    }

    pub(super) fn set_base(&mut self, base: u32) -> Result<(), ProtocolError> {
        let base = u16::try_from(base)
            .map_err(|_| ProtocolError::Value { what: "a ring index of", found: base.into() })?;
        self.queue.set_next_avail(base);
        Ok(())
    }

    pub(super) fn set_kick(&mut self, fd: OwnedFd) {
        never_block(&fd);
        self.kick = Some(fd);
        // The old descriptor may have received a kick that was not read.
        self.kicked();
    }

    pub(super) fn set_call(&mut self, fd: Option<OwnedFd>) {
        self.call = fd.inspect(never_block);
        // Entries may have been used before this descriptor was set, without an interrupt.
        self.notify();
    }

    pub(super) fn set_err(&mut self, fd: Option<OwnedFd>) {
        self.err = fd.inspect(never_block);
    }

    pub(super) fn is_started(&self) -> bool {
        self.stage != QueuePhase::Stopped
    }

    pub(super) fn is_running(&self) -> bool {
        self.stage == QueuePhase::Started && self.enabled
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.is_started() && self.kick.is_some() && self.addresses.is_some()
    }

    /// Begins a life with the features that the guest chose. With memory for requests in flight that has room for the
    /// queue, it starts with the requests that were left in flight.
    pub(super) fn start(
        &mut self,
        memory: &GuestMemoryMmap,
        features: u64,
        inflight: Option<&Arc<Inflight>>,
    ) -> Result<(), ProtocolError> {
        let broken = |_| ProtocolError::Value {
            what: "a ring outside of guest memory, queue",
            found: self.index.into(),
        };
        self.queue.set_event_idx(has(features, VIRTIO_RING_F_EVENT_IDX));
        self.queue.set_ready(true);
        if !self.queue.is_valid(memory) {
            return Err(broken(()));
        }
        let used = self.queue.used_idx(memory, Ordering::Acquire).map_err(|_| broken(()))?;
        self.queue.set_next_used(used.0);
        self.again.clear();
        self.inflight = inflight.filter(|inflight| inflight.has(self.index, self.queue.size())).cloned();
        if let Some(inflight) = &self.inflight {
            let Recovered { mut heads, next } = inflight.recover(self.index, used.0);
            heads.retain(|head| *head < self.queue.size());
            let count = u16::try_from(heads.len()).expect("heads are below the size of a queue");
            self.queue.set_next_avail((used + Wrapping(count)).0);
            (self.again, self.counter) = (heads.into(), next);
        }
        self.taken = vec![false; usize::from(self.queue.size())];
        self.in_flight = 0;
        self.life = self.life.wrapping_add(1);
        (self.stage, self.armed, self.used_changed) = (QueuePhase::Started, false, true);
        Ok(())
    }

    /// Accepts no more requests; `true` when none is in flight.
    pub(super) fn wind_down(&mut self) -> bool {
        if self.stage == QueuePhase::Started {
            self.stage = QueuePhase::Stopping;
        }
        self.in_flight == 0
    }

    /// Ends the life of the queue, and returns the index of the next available entry, minus the recovered
    /// heads that were not taken.
    pub(super) fn stop(&mut self) -> u16 {
        self.stage = QueuePhase::Stopped;
        self.call = None;
        self.queue.set_ready(false);
        let untaken = u16::try_from(self.again.len()).unwrap_or(0);
        self.again.clear();
        self.queue.next_avail().wrapping_sub(untaken)
    }

    /// The next head: of a request that was left in flight, or that the guest made available.
    pub(super) fn next_head(&mut self, memory: &GuestMemoryMmap) -> Result<Option<u16>, QueueFault> {
        let head = match self.again.pop_front() {
            Some(head) => head,
            None => {
                if !self.has_added(memory) {
                    return Ok(None);
                }
                let mut available = self.queue.iter(memory).map_err(|_| QueueFault::Ring)?;
                // An entry that cannot be read would be looked for again and again.
                available.next().ok_or(QueueFault::Ring)?.head_index()
            }
        };
        let taken = self.taken.get_mut(usize::from(head)).ok_or(QueueFault::Head)?;
        if std::mem::replace(taken, true) {
            return Err(QueueFault::Head);
        }
        self.in_flight += 1;
        if let Some(inflight) = &self.inflight {
            inflight.begin(self.index, head, self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(Some(head))
    }

    pub(super) fn table(&self) -> Table {
        Table { address: GuestAddress(self.queue.desc_table()), size: self.queue.size().into() }
    }

    /// Stops counting a head as in flight that cannot be answered; the guest cannot use the head again before the queue
    /// starts again.
    pub(super) fn give_up(&mut self) {
        self.in_flight -= 1;
    }

    pub(super) fn put_used(
        &mut self,
        memory: &GuestMemoryMmap,
        head: u16,
        written: u32,
    ) -> Result<(), QueueFault> {
        self.taken[usize::from(head)] = false;
        self.in_flight -= 1;
        if let Some(inflight) = &self.inflight {
            inflight.hand_over(self.index, head);
        }
        self.queue.add_used(memory, head, written).map_err(|_| QueueFault::Ring)?;
        if let Some(inflight) = &self.inflight {
            inflight.end(self.index, head, self.queue.next_used());
        }
        self.used_changed = true;
        Ok(())
    }

    pub(super) fn is_awake(&self) -> bool {
        self.is_running() && !self.armed
    }

    /// The guest kicked, or may have kicked: the queue does not rely on kicks until it requests them again.
    pub(super) fn kicked(&mut self) {
        self.armed = false;
    }

    pub(super) fn has_more(&self, memory: &GuestMemoryMmap) -> bool {
        !self.again.is_empty() || self.has_added(memory)
    }

    fn has_added(&self, memory: &GuestMemoryMmap) -> bool {
        let available = self.queue.avail_idx(memory, Ordering::Acquire);
        available.map_or(true, |index| index.0 != self.queue.next_avail())
    }

    pub(super) fn arm(&mut self, memory: &GuestMemoryMmap) -> Result<bool, QueueFault> {
        let more =
            !self.again.is_empty() || self.queue.enable_notification(memory).map_err(|_| QueueFault::Ring)?;
        self.armed = !more;
        Ok(more)
    }

    pub(super) fn signal(&mut self, memory: &GuestMemoryMmap) -> Result<(), QueueFault> {
        if !std::mem::take(&mut self.used_changed) || !self.wants_interrupt(memory)? {
            return Ok(());
        }
        self.notify();
        Ok(())
    }

    fn wants_interrupt(&mut self, memory: &GuestMemoryMmap) -> Result<bool, QueueFault> {
        let wanted = self.queue.needs_notification(memory).map_err(|_| QueueFault::Ring)?;
        if self.queue.event_idx_enabled() {
            return Ok(wanted);
        }
        let flags: u16 = memory
            .load(GuestAddress(self.queue.avail_ring()), Ordering::Relaxed)
            .map_err(|_| QueueFault::Ring)?;
        Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0)
    }

    fn notify(&self) {
        if let Some(call) = &self.call {
            ring(call);
        }
    }

    /// Stops taking chains, and notifies the front end if it set an error descriptor; `false`, without
    /// effect, if the queue is stopped or broken.
    pub(super) fn fail(&mut self) -> bool {
        if !matches!(self.stage, QueuePhase::Started | QueuePhase::Stopping) {
            return false;
        }
        self.stage = QueuePhase::Broken;
        self.again.clear();
        self.err.as_ref().inspect(|err| ring(err));
        true
    }

    pub(super) fn is_lost(&self) -> bool {
        self.inflight.as_ref().is_some_and(|inflight| inflight.is_lost())
    }
}

fn never_block(fd: &OwnedFd) {
    if let Ok(flags) = fcntl_getfl(fd) {
        let _ = fcntl_setfl(fd, flags | OFlags::NONBLOCK);
    }
}

#[expect(clippy::host_endian_bytes, reason = "an eventfd takes the host's byte order")]
fn ring(fd: impl AsFd) {
    // A full counter is readable already.
    let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
}

pub(super) fn clear(fd: impl AsFd) {
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

/// Refuses files, pipes, sockets and devices, which can be readable for ever or block; an eventfd is none of these.
pub(super) fn check_event(fd: &OwnedFd) -> Result<(), ProtocolError> {
    let mode = fstat(fd).map_err(io::Error::from)?.st_mode;
    match FileType::from_raw_mode(mode) {
        FileType::Unknown => Ok(()),
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => {
            Err(ProtocolError::Value { what: "an eventfd of the mode", found: mode.into() })
        }
    }
}
