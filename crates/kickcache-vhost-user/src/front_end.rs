//! Messages of the front end: queries, and changes of memory, queues and features.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use vhost::vhost_user::VhostUserProtocolFeatures;
use vhost::vhost_user::message::{
    FrontendReq, VhostUserConfig, VhostUserInflight, VhostUserMemory, VhostUserMemoryRegion,
    VhostUserVringAddr, VhostUserVringState,
};
use vm_memory::ByteValued;

use super::config_space::{CONFIG_BYTES, WRITE_CACHE_AT, WriteCache};
use super::device::{Answer, Device, KickChange, Notice, queue_number, usize_of, vring_of};
use super::features::{MEMORY_SLOTS_MAX, QUEUE_COUNT_MAX, has, protocol_offered};
use super::inflight::{self, Inflight};
use super::message::{Packet, ProtocolError, Reply};
use super::vring;
use crate::inflight::NewMemory;
use crate::memory::SharedRegion;
use crate::message::Split;

/// Bytes of configuration space that a front end may read; those behind the device's own fields are zeroes.
const CONFIG_BYTES_MAX: usize = 256;
/// In the payload of a message about an eventfd: the queue, and the flag that no descriptor is attached.
const QUEUE_MASK: u64 = 0xff;
const NO_FD: u64 = 0x100;
const PROTOCOL_FEATURES: u32 = 30;

impl Device {
    /// Handles a message.
    ///
    /// # Errors
    /// If the connection must be closed.
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
                self.notices.push(Notice::MessageRefused(error));
                Ok(Answer::Reply(packet.reply(1_u64.as_slice())))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a message has to wait for requests in flight; while it waits, the queues that it stops accept no new
    /// requests.
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
                Ok(self.outstanding() > 0)
            }
            _ => Ok(false),
        }
    }

    fn dispatch(&mut self, packet: &mut Packet) -> Result<Option<Reply>, ProtocolError> {
        let request = FrontendReq::try_from(packet.request);
        match request.map_err(|_| ProtocolError::Unknown(packet.request))? {
            FrontendReq::GET_FEATURES => Ok(reply_u64(packet, self.disk.features())),
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
            FrontendReq::SET_BACKEND_REQ_FD => {
                self.channel = Some(packet.only_fd()?);
                Ok(None)
            }
            FrontendReq::SET_INFLIGHT_FD => self.set_inflight(packet).map(none),
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
        let foreign = features & !self.disk.features();
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
        let Split { body: message, rest } = packet.split::<VhostUserConfig>()?;
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

    /// Changes the configuration space: only the write cache can be switched.
    fn set_config(&mut self, packet: &Packet) -> Result<(), ProtocolError> {
        let Split { body: message, rest: bytes } = packet.split::<VhostUserConfig>()?;
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
        self.write_cache = WriteCache::from_byte(*switch);
        if let Some(inflight) = &self.inflight {
            inflight.set_write_cache(self.write_cache);
        }
        Ok(())
    }

    fn set_inflight(&mut self, packet: &mut Packet) -> Result<(), ProtocolError> {
        let inflight = Inflight::open(&packet.body::<VhostUserInflight>()?, packet.only_fd()?)?;
        if inflight.write_cache() == WriteCache::Off {
            self.write_cache = WriteCache::Off;
        }
        inflight.set_write_cache(self.write_cache);
        self.inflight = Some(Arc::new(inflight));
        Ok(())
    }

    fn set_memory(&mut self, packet: &mut Packet) -> Result<(), ProtocolError> {
        let Split { body: message, rest } = packet.split::<VhostUserMemory>()?;
        let region_bytes = size_of::<VhostUserMemoryRegion>();
        if rest.len() != usize_of(message.num_regions).saturating_mul(region_bytes) {
            return Err(packet.bad_length());
        }
        let regions: Vec<VhostUserMemoryRegion> = rest.chunks_exact(region_bytes).map(region).collect();
        packet.expect_fds(regions.len())?;
        let shared = regions.into_iter().zip(packet.fds.drain(..));
        self.ram.replace(shared.map(|(region, fd)| SharedRegion { region, fd }).collect())
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
                let QueueEvent { index, fd } = event(packet)?;
                self.set_kick(index, fd)?;
                self.start_if_ready(index)
            }
            Ok(FrontendReq::SET_VRING_CALL) => {
                let QueueEvent { index, fd } = event(packet)?;
                self.vring(index).map(|vring| vring.set_call(fd))
            }
            Ok(FrontendReq::SET_VRING_ERR) => {
                let QueueEvent { index, fd } = event(packet)?;
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
        let fd = fd.ok_or_else(|| ProtocolError::Value {
            what: "a queue without a kick descriptor,",
            found: index.into(),
        })?;
        self.drop_kick(index)?;
        self.vring(index)?.set_kick(fd);
        self.kick_changes.push(KickChange::Watch(queue_number(index)));
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
        vring.start(self.ram.memory(), features, self.inflight.as_ref())
    }

    fn get_vring_base(&mut self, packet: &Packet) -> Result<Reply, ProtocolError> {
        let state: VhostUserVringState = packet.body()?;
        self.drop_kick(state.index)?;
        let base = self.vring(state.index)?.stop();
        Ok(packet.reply(VhostUserVringState::new(state.index, base.into()).as_slice()))
    }
}

fn get_inflight(packet: &Packet) -> Result<Reply, ProtocolError> {
    let wanted: VhostUserInflight = packet.body()?;
    let NewMemory { message, fd } = inflight::create(wanted.num_queues, wanted.queue_size)?;
    Ok(Reply { fd: Some(fd), ..packet.reply(message.as_slice()) })
}

struct QueueEvent {
    index: u32,
    fd: Option<OwnedFd>,
}

fn event(packet: &mut Packet) -> Result<QueueEvent, ProtocolError> {
    let value: u64 = packet.body()?;
    let index = u32::try_from(value & QUEUE_MASK).expect("masked");
    if value & NO_FD != 0 {
        return Ok(QueueEvent { index, fd: None });
    }
    let fd = packet.only_fd()?;
    vring::check_event(&fd)?;
    Ok(QueueEvent { index, fd: Some(fd) })
}

fn single_region(packet: &Packet) -> Result<VhostUserMemoryRegion, ProtocolError> {
    let rest = packet.split::<u64>()?.rest;
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

fn reply_u64(packet: &Packet, value: u64) -> Option<Reply> {
    Some(packet.reply(value.as_slice()))
}

fn none((): ()) -> Option<Reply> {
    None
}
