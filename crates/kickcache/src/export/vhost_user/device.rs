//! A vhost-user-blk device: messages of its front end in, replies out; chains of its queues in, answers out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use vhost::vhost_user::VhostUserProtocolFeatures;
use vhost::vhost_user::message::{
    BackendReq, FrontendReq, VhostUserConfig, VhostUserInflight, VhostUserMemory, VhostUserMemoryRegion,
    VhostUserVringAddr, VhostUserVringState,
};
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_FLUSH};
use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::{ByteValued, Bytes};

use super::chain::{QueueFault, walk};
use super::config_space::{CONFIG_BYTES, Disk, WRITE_CACHE_AT};
use super::features::{MEMORY_SLOTS_MAX, QUEUE_COUNT_MAX, has, offered, protocol_offered};
use super::inflight::{self, Inflight};
use super::memory::GuestRam;
use super::message::{Packet, ProtocolError, Reply};
use super::request::{GuestRequest, Outcome, Parsed, Rules, Tag, parse};
use super::socket::send;
use super::vring::{self, Vring};

/// Bytes of configuration space that a front end may ask for; behind the device's own there are zeroes.
const CONFIG_BYTES_MAX: usize = 256;
/// In the payload of a message about an eventfd: the queue, and whether no descriptor comes with it.
const QUEUE_MASK: u64 = 0xff;
const NO_FD: u64 = 0x100;
/// Feature bit: there are protocol features.
const PROTOCOL_FEATURES: u32 = 30;

/// A device, from one front end to the next.
pub struct Device {
    disk: Disk,
    features: u64,
    protocol: VhostUserProtocolFeatures,
    write_cache: bool,
    ram: GuestRam,
    vrings: Vec<Vring>,
    inflight: Option<Arc<Inflight>>,
    backend_requests: Option<OwnedFd>,
    kick_changes: Vec<KickChange>,
    /// Requests that were given out and have not come back, of whatever life.
    outstanding: u32,
}

/// What a message leads to.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// A reply.
    Reply(Reply),
    /// Requests in flight must end first; then the message is to be handled again.
    Wait(Packet),
}

/// A kick descriptor that is to be watched, or no longer.
#[derive(Debug)]
pub enum KickChange {
    /// Watch [`Device::kick`] of this queue.
    Watch(u16),
    /// Watch this one no longer, and close it.
    Unwatch(u16, OwnedFd),
}

impl Device {
    /// A device that no front end speaks to.
    pub fn new(disk: Disk) -> Device {
        Device {
            disk,
            features: 0,
            protocol: VhostUserProtocolFeatures::empty(),
            write_cache: true,
            ram: GuestRam::default(),
            vrings: (0..QUEUE_COUNT_MAX).map(Vring::new).collect(),
            inflight: None,
            backend_requests: None,
            kick_changes: Vec::new(),
            outstanding: 0,
        }
    }

    /// Handles a message.
    ///
    /// # Errors
    /// If the connection cannot go on.
    pub fn handle(&mut self, mut packet: Packet) -> Result<Answer, ProtocolError> {
        if self.must_wait(&packet)? {
            return Ok(Answer::Wait(packet));
        }
        let wants_ack = packet.need_reply && self.protocol.contains(VhostUserProtocolFeatures::REPLY_ACK);
        match self.dispatch(&mut packet) {
            Ok(Some(reply)) => Ok(Answer::Reply(reply)),
            Ok(None) if wants_ack => Ok(Answer::Reply(packet.reply(0_u64.as_slice()))),
            Ok(None) => Ok(Answer::Nothing),
            Err(error) if wants_ack => {
                tracing::warn!("a message for {} was refused: {error}", self.disk.name);
                Ok(Answer::Reply(packet.reply(1_u64.as_slice())))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a message has to wait for requests in flight; no new ones are taken then.
    fn must_wait(&mut self, packet: &Packet) -> Result<bool, ProtocolError> {
        match FrontendReq::try_from(packet.request) {
            Ok(FrontendReq::GET_VRING_BASE) => {
                let state: VhostUserVringState = packet.body()?;
                Ok(!self.vring(state.index)?.wind_down())
            }
            Ok(FrontendReq::RESET_DEVICE | FrontendReq::RESET_OWNER) => {
                for vring in &mut self.vrings {
                    vring.wind_down();
                }
                Ok(self.outstanding > 0)
            }
            _ => Ok(false),
        }
    }

    fn dispatch(&mut self, packet: &mut Packet) -> Result<Option<Reply>, ProtocolError> {
        let request = FrontendReq::try_from(packet.request);
        match request.map_err(|_| ProtocolError::Unknown(packet.request))? {
            FrontendReq::GET_FEATURES => Ok(reply_u64(packet, offered(self.disk.read_only))),
            FrontendReq::GET_PROTOCOL_FEATURES => Ok(reply_u64(packet, protocol_offered().bits())),
            FrontendReq::GET_QUEUE_NUM => Ok(reply_u64(packet, QUEUE_COUNT_MAX.into())),
            FrontendReq::GET_MAX_MEM_SLOTS => {
                let slots = u64::try_from(MEMORY_SLOTS_MAX).expect("some hundred");
                Ok(reply_u64(packet, slots))
            }
            FrontendReq::GET_CONFIG => self.get_config(packet).map(Some),
            FrontendReq::GET_INFLIGHT_FD => get_inflight(packet).map(Some),
            FrontendReq::GET_VRING_BASE => self.get_vring_base(packet).map(Some),
            FrontendReq::SET_OWNER => Ok(None),
            FrontendReq::RESET_OWNER | FrontendReq::RESET_DEVICE => {
                self.reset();
                Ok(None)
            }
            FrontendReq::SET_FEATURES => self.set_features(packet.body()?).map(none),
            FrontendReq::SET_PROTOCOL_FEATURES => {
                self.protocol =
                    VhostUserProtocolFeatures::from_bits_truncate(packet.body()?) & protocol_offered();
                Ok(None)
            }
            FrontendReq::SET_CONFIG => self.set_config(packet).map(none),
            FrontendReq::SET_INFLIGHT_FD => self.set_inflight(packet).map(none),
            FrontendReq::SET_BACKEND_REQ_FD => {
                self.backend_requests = Some(packet.only_fd()?);
                Ok(None)
            }
            FrontendReq::SET_MEM_TABLE => self.set_memory(packet).map(none),
            FrontendReq::ADD_MEM_REG => {
                let region = single_region(packet)?;
                self.ram.add(&region, packet.only_fd()?).map(none)
            }
            FrontendReq::REM_MEM_REG => self.ram.remove(&single_region(packet)?).map(none),
            FrontendReq::SET_VRING_NUM
            | FrontendReq::SET_VRING_BASE
            | FrontendReq::SET_VRING_ADDR
            | FrontendReq::SET_VRING_ENABLE
            | FrontendReq::SET_VRING_KICK
            | FrontendReq::SET_VRING_CALL
            | FrontendReq::SET_VRING_ERR => self.set_vring(packet).map(none),
            _ => Err(ProtocolError::Unknown(packet.request)),
        }
    }

    fn set_features(&mut self, features: u64) -> Result<(), ProtocolError> {
        let foreign = features & !offered(self.disk.read_only);
        if foreign != 0 {
            return Err(ProtocolError::Value {
                what: "a choice of features that were not offered,",
                found: foreign,
            });
        }
        self.features = features;
        Ok(())
    }

    fn get_config(&self, packet: &Packet) -> Result<Reply, ProtocolError> {
        let (message, rest) = packet.split::<VhostUserConfig>()?;
        let (offset, size) = (usize_of(message.offset), usize_of(message.size));
        if offset.saturating_add(size) > CONFIG_BYTES_MAX || rest.len() > size {
            return Err(ProtocolError::Value {
                what: "configuration behind byte",
                found: message.offset.into(),
            });
        }
        let mut space = [0; CONFIG_BYTES_MAX];
        space[..CONFIG_BYTES].copy_from_slice(&self.disk.config_space(self.write_cache));
        let mut payload = message.as_slice().to_vec();
        payload.extend_from_slice(&space[offset..offset + size]);
        Ok(packet.reply(&payload))
    }

    /// Only the write cache can be switched.
    fn set_config(&mut self, packet: &Packet) -> Result<(), ProtocolError> {
        let (message, bytes) = packet.split::<VhostUserConfig>()?;
        if bytes.len() != usize_of(message.size) {
            return Err(packet.bad_length());
        }
        let at = WRITE_CACHE_AT.checked_sub(usize_of(message.offset));
        let Some(switch) = at.and_then(|at| bytes.get(at)) else {
            return Err(ProtocolError::Value {
                what: "a change of configuration at byte",
                found: message.offset.into(),
            });
        };
        self.write_cache = *switch != 0;
        if let Some(inflight) = &self.inflight {
            inflight.set_write_through(!self.write_cache);
        }
        Ok(())
    }

    fn set_inflight(&mut self, packet: &mut Packet) -> Result<(), ProtocolError> {
        let inflight = Inflight::open(&packet.body::<VhostUserInflight>()?, packet.only_fd()?)?;
        self.write_cache &= !inflight.is_write_through();
        inflight.set_write_through(!self.write_cache);
        self.inflight = Some(Arc::new(inflight));
        Ok(())
    }

    fn set_memory(&mut self, packet: &mut Packet) -> Result<(), ProtocolError> {
        let (message, rest) = packet.split::<VhostUserMemory>()?;
        let region_bytes = size_of::<VhostUserMemoryRegion>();
        if rest.len() != usize_of(message.num_regions).saturating_mul(region_bytes) {
            return Err(packet.bad_length());
        }
        let regions: Vec<VhostUserMemoryRegion> = rest.chunks_exact(region_bytes).map(region).collect();
        packet.expect_fds(regions.len())?;
        self.ram.replace(regions.into_iter().zip(packet.fds.drain(..)).collect())
    }

    fn set_vring(&mut self, packet: &mut Packet) -> Result<(), ProtocolError> {
        match FrontendReq::try_from(packet.request) {
            Ok(FrontendReq::SET_VRING_ADDR) => {
                let addresses: VhostUserVringAddr = packet.body()?;
                let vring = vring_of(&mut self.vrings, addresses.index)?;
                vring.set_addresses(addresses, &self.ram)?;
                self.start_if_ready(addresses.index)
            }
            Ok(FrontendReq::SET_VRING_KICK) => {
                let (index, fd) = event(packet)?;
                self.set_kick(index, fd)?;
                self.start_if_ready(index)
            }
            Ok(FrontendReq::SET_VRING_CALL) => {
                let (index, fd) = event(packet)?;
                self.vring(index).map(|vring| vring.set_call(fd))
            }
            Ok(FrontendReq::SET_VRING_ERR) => {
                let (index, fd) = event(packet)?;
                self.vring(index).map(|vring| vring.set_err(fd))
            }
            Ok(FrontendReq::SET_VRING_NUM) => {
                let state: VhostUserVringState = packet.body()?;
                self.vring(state.index)?.set_size(state.num)
            }
            Ok(FrontendReq::SET_VRING_BASE) => {
                let state: VhostUserVringState = packet.body()?;
                self.vring(state.index)?.set_base(state.num)
            }
            _ => {
                let state: VhostUserVringState = packet.body()?;
                self.vring(state.index)?.enabled = state.num == 1;
                Ok(())
            }
        }
    }

    fn set_kick(&mut self, index: u32, fd: Option<OwnedFd>) -> Result<(), ProtocolError> {
        let fd = fd.ok_or(ProtocolError::Value {
            what: "a queue without a kick descriptor,",
            found: index.into(),
        })?;
        vring::prepare_kick(&fd);
        self.drop_kick(index)?;
        let vring = vring_of(&mut self.vrings, index)?;
        vring.kick = Some(fd);
        self.kick_changes.push(KickChange::Watch(queue_number(index)));
        Ok(())
    }

    fn drop_kick(&mut self, index: u32) -> Result<(), ProtocolError> {
        let old = vring_of(&mut self.vrings, index)?.kick.take();
        self.kick_changes.extend(old.map(|fd| KickChange::Unwatch(queue_number(index), fd)));
        Ok(())
    }

    fn start_if_ready(&mut self, index: u32) -> Result<(), ProtocolError> {
        let features = self.features;
        let vring = vring_of(&mut self.vrings, index)?;
        if !vring.is_ready() {
            return Ok(());
        }
        // Without protocol features there is no message that enables a queue.
        vring.enabled |= !has(features, PROTOCOL_FEATURES);
        let event_idx = has(features, VIRTIO_RING_F_EVENT_IDX);
        vring.start(self.ram.memory(), event_idx, self.inflight.as_ref())
    }

    fn get_vring_base(&mut self, packet: &Packet) -> Result<Reply, ProtocolError> {
        let state: VhostUserVringState = packet.body()?;
        self.drop_kick(state.index)?;
        let base = self.vring(state.index)?.stop();
        Ok(packet.reply(VhostUserVringState::new(state.index, base.into()).as_slice()))
    }

    fn vring(&mut self, index: u32) -> Result<&mut Vring, ProtocolError> {
        vring_of(&mut self.vrings, index)
    }

    /// Goes back to the beginning, but for its memory and what is negotiated about the connection.
    fn reset(&mut self) {
        for index in 0..u32::from(QUEUE_COUNT_MAX) {
            // All of these exist.
            let _ = self.drop_kick(index);
            let _ = self.vring(index).map(Vring::stop);
        }
        let lives: Vec<u32> = self.vrings.iter().map(|vring| vring.life).collect();
        for (index, life) in (0..QUEUE_COUNT_MAX).zip(lives) {
            self.vrings[usize::from(index)] = Vring::after(index, life);
        }
        (self.features, self.write_cache) = (0, true);
        if let Some(inflight) = &self.inflight {
            inflight.set_write_through(false);
        }
    }

    /// Forgets the front end, which is gone. What is in flight goes on without anybody to answer to.
    pub fn disconnect(&mut self) {
        // The memory for requests in flight is the front end's: it must stay as it is.
        self.inflight = None;
        self.reset();
        self.ram.clear();
        (self.protocol, self.backend_requests) = (VhostUserProtocolFeatures::empty(), None);
    }

    /// Kick descriptors that changed since the last call.
    pub fn kick_changes(&mut self) -> Vec<KickChange> {
        std::mem::take(&mut self.kick_changes)
    }

    /// The kick descriptor of a queue.
    pub fn kick(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        Some(self.vrings.get(usize::from(queue))?.kick.as_ref()?.as_fd())
    }

    /// Takes a kick in; the queue has to be looked at.
    pub fn kicked(&mut self, queue: u16) {
        let Some(vring) = self.vrings.get_mut(usize::from(queue)) else { return };
        vring.kick.as_ref().inspect(|kick| vring::clear(kick));
        vring.kicked();
    }

    /// Whether a queue may have something although no kick came: it has to be looked at before anybody sleeps.
    pub fn is_awake(&self) -> bool {
        self.vrings.iter().any(Vring::is_awake)
    }

    /// Requests that were given out and are not completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The next request of a queue that needs the volume; what does not is answered on the way.
    pub fn next_request(&mut self, queue: u16) -> Option<GuestRequest> {
        while self.vrings.get(usize::from(queue))?.is_awake() {
            match self.take(queue) {
                Ok(Some(Parsed::Request(request))) => {
                    self.outstanding += 1;
                    return Some(request);
                }
                Ok(Some(Parsed::Answer { .. })) => {}
                Ok(None) => return None,
                Err(fault) => self.vrings[usize::from(queue)].fail(fault),
            }
        }
        None
    }

    fn take(&mut self, queue: u16) -> Result<Option<Parsed>, QueueFault> {
        let (rules, serial) = (self.rules(), self.disk.serial());
        let memory = self.ram.memory();
        let vring = &mut self.vrings[usize::from(queue)];
        let Some(head) = vring.next_head(memory)? else { return Ok(None) };
        let tag = Tag { queue, head, life: vring.life };
        let chain = walk(memory, vring.table(), head);
        let parsed = chain.and_then(|chain| parse(tag, chain, memory, (rules, serial)));
        let parsed = parsed.inspect_err(|_| vring.give_up())?;
        if let Parsed::Answer { outcome, status, written } = &parsed {
            let told = memory.write_obj(outcome.status(), *status);
            told.map_err(|_| QueueFault::NoStatus).inspect_err(|_| vring.give_up())?;
            vring.put_used(memory, head, *written)?;
        }
        Ok(Some(parsed))
    }

    fn rules(&self) -> Rules {
        let switchable = has(self.features, VIRTIO_BLK_F_CONFIG_WCE);
        let flushes = has(self.features, VIRTIO_BLK_F_FLUSH);
        // A guest that can neither flush nor switch the cache off relies on writes that are durable.
        let durable = if switchable { !self.write_cache } else { !flushes };
        Rules { size: self.disk.size, read_only: self.disk.read_only, durable, features: self.features }
    }

    /// Asks the guest for kicks of a queue; `true` if there is something already.
    pub fn arm(&mut self, queue: u16) -> bool {
        let vring = &mut self.vrings[usize::from(queue)];
        if !vring.is_awake() {
            return false;
        }
        match vring.arm(self.ram.memory()) {
            Ok(more) => more,
            Err(fault) => {
                vring.fail(fault);
                false
            }
        }
    }

    /// Gives a request back, done or not.
    pub fn complete(&mut self, request: &GuestRequest, outcome: Outcome) {
        self.outstanding -= 1;
        let Tag { queue, head, life } = request.tag;
        let vring = &mut self.vrings[usize::from(queue)];
        if vring.life != life || !vring.is_started() {
            return;
        }
        let written = if outcome == Outcome::Done { request.written() } else { 1 };
        let told = request.memory.write_obj(outcome.status(), request.status);
        let told = told.map_err(|_| QueueFault::NoStatus);
        let told = told.inspect_err(|_| vring.give_up());
        if let Err(fault) = told.and_then(|()| vring.put_used(self.ram.memory(), head, written)) {
            vring.fail(fault);
        }
    }

    /// Interrupts the guest for what was completed since the last call, where it wants that.
    pub fn signal(&mut self) {
        for vring in &mut self.vrings {
            if let Err(fault) = vring.signal(self.ram.memory()) {
                vring.fail(fault);
            }
        }
    }

    /// Tells the guest that the disk has another size.
    pub fn resize(&mut self, size: u64) {
        self.disk.size = size;
        if let Some(socket) = &self.backend_requests {
            let notice = Reply::notice(BackendReq::CONFIG_CHANGE_MSG.into());
            // A front end that does not listen asks for the configuration when it likes.
            let _ = send(socket.as_fd(), &notice);
        }
    }
}

fn get_inflight(packet: &Packet) -> Result<Reply, ProtocolError> {
    let wanted: VhostUserInflight = packet.body()?;
    let (message, fd) = inflight::create(wanted.num_queues, wanted.queue_size)?;
    Ok(Reply { fd: Some(fd), ..packet.reply(message.as_slice()) })
}

/// The queue that a message about an eventfd speaks of, and the descriptor.
fn event(packet: &mut Packet) -> Result<(u32, Option<OwnedFd>), ProtocolError> {
    let value: u64 = packet.body()?;
    let index = u32::try_from(value & QUEUE_MASK).expect("masked");
    let fd = if value & NO_FD == 0 { Some(packet.only_fd()?) } else { None };
    Ok((index, fd))
}

fn single_region(packet: &Packet) -> Result<VhostUserMemoryRegion, ProtocolError> {
    let (_, rest) = packet.split::<u64>()?;
    if rest.len() != size_of::<VhostUserMemoryRegion>() {
        return Err(packet.bad_length());
    }
    Ok(region(rest))
}

fn region(bytes: &[u8]) -> VhostUserMemoryRegion {
    let mut region = VhostUserMemoryRegion::default();
    region.as_mut_slice().copy_from_slice(bytes);
    region
}

fn vring_of(vrings: &mut [Vring], index: u32) -> Result<&mut Vring, ProtocolError> {
    vrings
        .get_mut(usize_of(index))
        .ok_or(ProtocolError::Value { what: "a queue with the number", found: index.into() })
}

fn queue_number(index: u32) -> u16 {
    u16::try_from(index).expect("queues that exist have small numbers")
}

fn usize_of(value: u32) -> usize {
    usize::try_from(value).expect("usize has at least 32 bits")
}

fn reply_u64(packet: &Packet, value: u64) -> Option<Reply> {
    Some(packet.reply(value.as_slice()))
}

fn none((): ()) -> Option<Reply> {
    None
}
