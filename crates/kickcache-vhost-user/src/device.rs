//! A vhost-user-blk device: its state, chains of its queues in, answers out.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kickcache_engine::request::Durability;
use vhost::vhost_user::VhostUserProtocolFeatures;
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_FLUSH};

use super::chain::{QueueFault, walk};
use super::config_space::{Disk, WriteCache};
use super::features::{QUEUE_COUNT_MAX, has};
use super::guard::is_any_lost;
use super::inflight::Inflight;
use super::memory::{GuestRam, write};
use super::message::{Packet, ProtocolError, Reply, config_changed};
use super::request::{GuestRequest, Outcome, Parsed, Rules, Tag, parse};
use super::socket;
use super::vring::{self, Vring};

/// The most chains that one call of [`Device::next_request`] answers directly.
const ANSWERS_MAX: usize = 16;

/// A device; it exists for longer than the connection of a front end.
pub struct Device {
    pub(super) disk: Disk,
    pub(super) features: u64,
    pub(super) protocol: VhostUserProtocolFeatures,
    pub(super) write_cache: WriteCache,
    pub(super) ram: GuestRam,
    pub(super) vrings: Vec<Vring>,
    pub(super) inflight: Option<Arc<Inflight>>,
    pub(super) kick_changes: Vec<KickChange>,
    /// The socket for messages to the front end.
    pub(super) channel: Option<OwnedFd>,
    /// Requests that were handed out and are not completed, of the current life or an earlier one.
    outstanding: u32,
    pub(super) notices: Vec<Notice>,
}

#[derive(Debug)]
pub enum Notice {
    QueueStopped(u16, String),
    MessageRefused(ProtocolError),
    SizeNotTold(io::Error),
}

#[derive(Debug)]
pub enum Answer {
    Nothing,
    Reply(Reply),
    /// Requests in flight must end first; then the message is to be handled again.
    Wait(Packet),
}

#[derive(Debug)]
pub enum KickChange {
    Watch(u16),
    /// No longer watch this descriptor of the queue, and close it.
    Unwatch(u16, OwnedFd),
}

impl Device {
    pub fn new(disk: Disk) -> Device {
        Device {
            disk,
            features: 0,
            protocol: VhostUserProtocolFeatures::empty(),
            write_cache: WriteCache::On,
            ram: GuestRam::default(),
            vrings: (0..QUEUE_COUNT_MAX).map(Vring::new).collect(),
            inflight: None,
            kick_changes: Vec::new(),
            channel: None,
            outstanding: 0,
            notices: Vec::new(),
        }
    }

    pub(super) fn drop_kick(&mut self, index: u32) -> Result<(), ProtocolError> {
        let old = vring_of(&mut self.vrings, index)?.kick.take();
        self.kick_changes.extend(old.map(|fd| KickChange::Unwatch(queue_number(index), fd)));
        Ok(())
    }

    pub(super) fn vring(&mut self, index: u32) -> Result<&mut Vring, ProtocolError> {
        vring_of(&mut self.vrings, index)
    }

    /// Stops all queues, drops their settings and descriptors, and resets the virtio features and the write
    /// cache. Guest memory, the memory for requests in flight, the channel to the front end and the protocol
    /// features stay.
    pub(super) fn reset(&mut self) {
        for index in 0..u32::from(QUEUE_COUNT_MAX) {
            // All queues below `QUEUE_COUNT_MAX` exist.
            let _ = self.drop_kick(index);
            let _ = self.vring(index).map(Vring::stop);
        }
        let lives: Vec<u32> = self.vrings.iter().map(|vring| vring.life).collect();
        for (index, life) in (0..QUEUE_COUNT_MAX).zip(lives) {
            self.vrings[usize::from(index)] = Vring::after(index, life);
        }
        (self.features, self.write_cache) = (0, WriteCache::On);
        if let Some(inflight) = &self.inflight {
            inflight.set_write_cache(WriteCache::On);
        }
    }

    /// Drops the state of a front end that disconnected. Requests in flight continue, and their results are
    /// dropped.
    pub fn disconnect(&mut self) {
        // The memory for requests in flight is the front end's: it must stay as it is.
        self.inflight = None;
        self.reset();
        self.ram.clear();
        self.channel = None;
        self.protocol = VhostUserProtocolFeatures::empty();
    }

    /// Changes the size of the disk. A front end with a backend channel is notified; a failure becomes a notice.
    pub fn resize(&mut self, size: u64) {
        self.disk.size = size;
        let Some(channel) = &self.channel else { return };
        if let Err(error) = socket::send_short(channel, &config_changed()) {
            self.notices.push(Notice::SizeNotTold(error));
        }
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether memory that the front end shares was missing when it was accessed. The state of this front end
    /// cannot be trusted any more: the owner of the device must disconnect it.
    pub fn has_lost_memory(&self) -> bool {
        let inflight = || self.inflight.as_ref().is_some_and(|inflight| inflight.is_lost());
        let is_lost = || self.ram.memory().is_lost() || inflight() || self.vrings.iter().any(Vring::is_lost);
        is_any_lost() && is_lost()
    }

    /// Stops a queue that broke the rules. If memory is missing, no queue is stopped here.
    fn fail(&mut self, queue: u16, fault: QueueFault) {
        if !self.has_lost_memory() && self.vrings[usize::from(queue)].fail() {
            self.notices.push(Notice::QueueStopped(queue, fault.to_string()));
        }
    }

    pub fn kick_changes(&mut self) -> Vec<KickChange> {
        std::mem::take(&mut self.kick_changes)
    }

    /// The kick descriptor of a queue, if the front end has set one.
    pub fn kick(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        Some(self.vrings.get(usize::from(queue))?.kick.as_ref()?.as_fd())
    }

    /// Records a kick: the queue must be examined for requests.
    pub fn kicked(&mut self, queue: u16) {
        if let Some(vring) = self.vrings.get_mut(usize::from(queue)) {
            vring.kicked();
        }
    }

    /// Reads the kick descriptor of a queue, so that a watch does not report the same kick again.
    pub fn clear_kick(&self, queue: u16) {
        self.vrings
            .get(usize::from(queue))
            .and_then(|vring| vring.kick.as_ref())
            .inspect(|kick| vring::clear(kick));
    }

    pub fn is_awake(&self) -> bool {
        self.vrings.iter().any(Vring::is_awake)
    }

    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The next request of a queue that needs the volume; requests that do not are answered in this call. After
    /// `ANSWERS_MAX` answers the call returns `None`: a guest could otherwise add requests without end.
    pub fn next_request(&mut self, queue: u16) -> Option<GuestRequest> {
        for _ in 0..ANSWERS_MAX {
            if !self.vrings.get(usize::from(queue))?.is_awake() {
                return None;
            }
            match self.take(queue) {
                Ok(Some(Parsed::Request(request))) => {
                    self.outstanding += 1;
                    return Some(request);
                }
                Ok(Some(Parsed::Answer { .. })) => {}
                Ok(None) => return None,
                Err(fault) => self.fail(queue, fault),
            }
        }
        None
    }

    fn take(&mut self, queue: u16) -> Result<Option<Parsed>, QueueFault> {
        let (rules, serial) = (self.rules(), self.disk.serial);
        let memory = self.ram.memory();
        let vring = &mut self.vrings[usize::from(queue)];
        let Some(head) = vring.next_head(memory)? else { return Ok(None) };
        let tag = Tag { queue, head, life: vring.life };
        let chain = walk(memory, vring.table(), head);
        let parsed = chain.and_then(|chain| parse(tag, chain, memory, rules, serial));
        let parsed = parsed.inspect_err(|_| vring.give_up())?;
        if memory.is_lost() || vring.is_lost() {
            // The chain may have been read from pages that the guest did not write.
            vring.give_up();
            return Err(QueueFault::MemoryLost);
        }
        if let Parsed::Answer { outcome, status, written } = &parsed {
            let told = write(memory, *status, &[outcome.status()]);
            told.ok_or(QueueFault::NoStatus).inspect_err(|_| vring.give_up())?;
            vring.put_used(memory, head, *written)?;
        }
        Ok(Some(parsed))
    }

    pub(super) fn rules(&self) -> Rules {
        let switchable = has(self.features, VIRTIO_BLK_F_CONFIG_WCE);
        let flushes = has(self.features, VIRTIO_BLK_F_FLUSH);
        // A guest that can neither flush nor switch the cache off relies on writes that are durable.
        let may_flush = if switchable { self.write_cache == WriteCache::On } else { flushes };
        let durability = if may_flush { Durability::Volatile } else { Durability::Durable };
        Rules { size: self.disk.size, read_only: self.disk.read_only, durability, features: self.features }
    }

    /// Whether a queue that does not rely on kicks has new requests or an unreadable ring, or memory of the
    /// device is missing.
    pub fn has_more(&self) -> bool {
        let has_more = |vring: &Vring| vring.is_awake() && vring.has_more(self.ram.memory());
        self.vrings.iter().any(has_more) || self.has_lost_memory()
    }

    /// Requests kicks of a queue from the guest; `true` if the queue has new requests already, or memory is
    /// missing. For a queue that is not awake, the call has no effect.
    pub fn arm(&mut self, queue: u16) -> bool {
        let vring = &mut self.vrings[usize::from(queue)];
        if !vring.is_awake() {
            return false;
        }
        match vring.arm(self.ram.memory()) {
            Ok(more) => more || self.has_lost_memory(),
            Err(fault) => {
                self.fail(queue, fault);
                self.has_lost_memory()
            }
        }
    }

    /// The guest gets the outcome unless the front end stopped or reset its queue since.
    pub fn complete(&mut self, request: &GuestRequest, outcome: Outcome) {
        self.outstanding -= 1;
        let Tag { queue, head, life } = request.tag;
        let vring = &mut self.vrings[usize::from(queue)];
        if vring.life != life || !vring.is_started() {
            return;
        }
        let written = if outcome == Outcome::Done { request.written() } else { 1 };
        let told = write(&request.memory, request.status, &[outcome.status()]);
        let told = told.ok_or(QueueFault::NoStatus);
        let told = told.inspect_err(|_| vring.give_up());
        if let Err(fault) = told.and_then(|()| vring.put_used(self.ram.memory(), head, written)) {
            self.fail(queue, fault);
        }
    }

    /// Interrupts the guest for the requests completed since the last call, unless it suppresses interrupts.
    pub fn signal(&mut self) {
        for queue in 0..QUEUE_COUNT_MAX {
            if let Err(fault) = self.vrings[usize::from(queue)].signal(self.ram.memory()) {
                self.fail(queue, fault);
            }
        }
    }
}

pub(super) fn vring_of(vrings: &mut [Vring], index: u32) -> Result<&mut Vring, ProtocolError> {
    vrings
        .get_mut(usize_of(index))
        .ok_or_else(|| ProtocolError::Value { what: "a queue with the number", found: index.into() })
}

pub(super) fn queue_number(index: u32) -> u16 {
    u16::try_from(index).expect("queues that exist have small numbers")
}

pub(super) fn usize_of(value: u32) -> usize {
    usize::try_from(value).expect("usize has at least 32 bits")
}
