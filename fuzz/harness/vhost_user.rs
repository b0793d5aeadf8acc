//! Shared by the vhost-user fuzz targets, the replay of their corpus and the tests of the device: a guest of
//! 1 MiB with a file as its memory. The includer brings `vhost_user` into scope.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};

use super::vhost_user::{Answer, Device, Disk, GuestRequest, Outcome, Packet, ProtocolError, RequestKind};

/// Bytes of guest memory, which starts at guest address 0.
pub(super) const RAM: u64 = 1 << 20;
/// Where the front end has it.
pub(super) const USER: u64 = 0x7f00_0000_0000;
/// Addresses of the rings of queue 0.
pub(super) const TABLE: u64 = 0x1000;
pub(super) const AVAIL: u64 = 0x2000;
pub(super) const USED: u64 = 0x3000;
/// Descriptors of queue 0.
pub(super) const SIZE: u16 = 16;
/// Bytes of the disk.
pub(super) const DISK: u64 = 64 << 20;

pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// All features except the write cache switch.
pub(super) const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 28 | 1 << 13 | 1 << 14 | 1 << 9;
pub(super) const EVENT_IDX: u64 = 1 << 29;
pub(super) const CONFIG_WCE: u64 = 1 << 11;

/// Messages that one input may hold, and requests that one ring may lead to.
const MESSAGES_MAX: usize = 200;
const REQUESTS_MAX: usize = 1000;

pub(super) struct Guest {
    pub(super) device: Device,
    pub(super) ram: File,
    available: u16,
}

pub(super) fn disk() -> Disk {
    Disk { serial: *b"fuzz----------------", size: DISK, read_only: false, block_size: 512 }
}

/// A message with a payload of 64-bit words.
pub(super) fn packet(request: u32, words: &[u64], fds: Vec<OwnedFd>) -> Packet {
    let payload = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Packet { request, need_reply: false, payload, fds }
}

/// Two 32-bit values, as in a payload.
pub(super) fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

pub(super) fn event_fd() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

impl Guest {
    /// A device with memory, and queue 0 started.
    pub(super) fn new(features: u64) -> Guest {
        let mut guest = Guest::bare();
        guest.share_memory();
        guest.tell(packet(2, &[features], Vec::new())).unwrap();
        guest.start_queue().unwrap();
        guest
    }

    /// A device before the first message.
    pub(super) fn bare() -> Guest {
        let ram = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        ram.set_len(RAM).unwrap();
        Guest { device: Device::new(disk()), ram, available: 0 }
    }

    pub(super) fn tell(&mut self, packet: Packet) -> Result<Answer, ProtocolError> {
        self.device.handle(packet)
    }

    pub(super) fn memory_fd(&self) -> OwnedFd {
        self.ram.try_clone().unwrap().into()
    }

    pub(super) fn share_memory(&mut self) {
        let fd = self.memory_fd();
        self.tell(packet(37, &[0, 0, RAM, USER, 0], vec![fd])).unwrap();
    }

    pub(super) fn start_queue(&mut self) -> Result<(), ProtocolError> {
        self.tell(packet(8, &[pair(0, SIZE.into())], Vec::new()))?;
        self.tell(packet(10, &[pair(0, 0)], Vec::new()))?;
        self.tell(packet(9, &[pair(0, 0), USER + TABLE, USER + USED, USER + AVAIL, 0], Vec::new()))?;
        self.tell(packet(13, &[0], vec![event_fd()]))?;
        self.tell(packet(12, &[0], vec![event_fd()]))?;
        self.tell(packet(18, &[pair(0, 1)], Vec::new()))?;
        Ok(())
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        self.ram.write_all_at(bytes, at).unwrap();
    }

    pub(super) fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.ram.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// Puts a descriptor into a table.
    pub(super) fn descriptor(
        &self,
        table: u64,
        index: u16,
        (address, length, flags, next): (u64, u32, u16, u16),
    ) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
        self.write(table + 16 * u64::from(index), &bytes);
    }

    /// Makes a head available.
    pub(super) fn offer(&mut self, head: u16) {
        let slot = u64::from(self.available % SIZE);
        self.write(AVAIL + 4 + 2 * slot, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.write(AVAIL + 2, &self.available.to_le_bytes());
        self.device.kicked(0);
    }

    /// The index of the used ring.
    pub(super) fn used(&self) -> u16 {
        u16::from_le_bytes(self.read(USED + 2))
    }

    /// Takes the available requests, checks the guarantees of the device, and completes the requests in reverse order.
    pub(super) fn serve(&mut self) -> Vec<GuestRequest> {
        let mut taken = Vec::new();
        while let Some(request) = self.device.next_request(0) {
            check(&request);
            taken.push(request);
            assert!(
                taken.len() <= usize::from(SIZE),
                "more requests in flight than the queue has descriptors"
            );
        }
        for request in taken.iter_mut().rev() {
            complete(&mut self.device, request);
        }
        self.device.signal();
        taken
    }
}

fn complete(device: &mut Device, request: &mut GuestRequest) {
    let mut payload = vec![0x5a; usize::try_from(request.payload_length()).unwrap()];
    let moved = match request.kind() {
        RequestKind::Read => request.deliver(&payload),
        RequestKind::Write { .. } => request.copy_payload(&mut payload),
        RequestKind::Flush | RequestKind::Discard | RequestKind::WriteZeroes { .. } => Some(()),
    };
    device.complete(request, moved.map_or(Outcome::Failed, |()| Outcome::Done));
}

/// The guarantees for every request of a device.
fn check(request: &GuestRequest) {
    let extent = request.extent();
    assert!(extent.start.checked_add(extent.length).is_some_and(|end| end <= DISK));
    match request.kind() {
        RequestKind::Read | RequestKind::Write { .. } => {
            assert!(extent.length > 0 && extent.length == request.payload_length());
        }
        RequestKind::Discard | RequestKind::WriteZeroes { .. } => {
            assert!(extent.length > 0 && request.payload_length() == 0);
        }
        RequestKind::Flush => assert!(extent.length == 0 && request.payload_length() == 0),
    }
}

/// Takes the input for guest memory from the rings on, behind a byte that chooses features, and kicks.
pub(super) fn ring(bytes: &[u8]) {
    let Some((&choice, memory)) = bytes.split_first() else { return };
    let event_idx = if choice & 1 == 0 { 0 } else { EVENT_IDX };
    let mut guest = Guest::new(FEATURES | event_idx);
    let memory = &memory[..memory.len().min(1 << 16)];
    guest.write(TABLE, memory);
    let mut served = 0;
    for _ in 0..4 {
        guest.device.kicked(0);
        served += guest.serve().len();
        guest.device.arm(0);
    }
    assert!(served <= REQUESTS_MAX && guest.device.outstanding() == 0);
    // A guest that broke its queue can be stopped and started again.
    let stopped = guest.tell(packet(11, &[pair(0, 0)], Vec::new())).unwrap();
    assert!(matches!(stopped, Answer::Reply(_)));
    guest.start_queue().unwrap();
}

/// Takes the input for messages: number, descriptors, length of the payload, payload.
pub(super) fn messages(mut bytes: &[u8]) {
    let mut guest = Guest::bare();
    for _ in 0..MESSAGES_MAX {
        let Some((head, rest)) = bytes.split_at_checked(3) else { break };
        let length = usize::from(head[2]).min(rest.len());
        let (payload, behind) = rest.split_at(length);
        bytes = behind;
        let request = u32::from(head[0] & 0x3f);
        // The descriptors of SET_VRING_KICK, CALL and ERR begin with an eventfd, those of other messages with memory.
        let first = u8::from((12..=14).contains(&request));
        let fds = (0..head[1] % 4)
            .map(|index| if (index + first) % 2 == 0 { guest.memory_fd() } else { event_fd() })
            .collect();
        let packet = Packet { request, need_reply: head[0] & 0x80 != 0, payload: payload.to_vec(), fds };
        if let Ok(Answer::Wait(_)) = guest.tell(packet) {
            panic!("nothing is in flight");
        }
        for queue in 0..16 {
            while let Some(mut request) = guest.device.next_request(queue) {
                complete(&mut guest.device, &mut request);
            }
            guest.device.arm(queue);
        }
        guest.device.signal();
        drop(guest.device.kick_changes());
    }
    guest.device.disconnect();
    assert!(guest.device.outstanding() == 0);
}
