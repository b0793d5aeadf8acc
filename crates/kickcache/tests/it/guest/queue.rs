//! A split ring from the driver's side, with a slot of three descriptors for each request.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost::VringConfigData;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::{DATA, GET_ID, PAYLOAD, READ, SLOTS};

/// Room for three descriptors of each slot.
pub(crate) const SIZE: u16 = 512;
const QUEUE_BYTES: u64 = 64 << 10;
const AVAIL: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADERS: u64 = 0x8000;
const HEADER_BYTES: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CompletedRequest {
    pub(crate) slot: u16,
    pub(crate) status: u8,
    /// Bytes, as reported by the device.
    pub(crate) written: u32,
}

pub(crate) struct Queue {
    index: u16,
    event_idx: bool,
    available: u16,
    kicked: u16,
    seen: u16,
    free: Vec<u16>,
    pub(crate) kick: EventFd,
    pub(crate) call: EventFd,
}

pub(crate) fn data(queue: u16, slot: u16) -> GuestAddress {
    GuestAddress(DATA + (u64::from(queue) * u64::from(SLOTS) + u64::from(slot)) * PAYLOAD)
}

impl Queue {
    pub(crate) fn new(index: u16, event_idx: bool) -> Queue {
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        let free = (0..SLOTS).rev().collect();
        Queue { index, event_idx, available: 0, kicked: 0, seen: 0, free, kick: event(), call: event() }
    }

    fn at(&self, offset: u64) -> GuestAddress {
        GuestAddress(u64::from(self.index) * QUEUE_BYTES + offset)
    }

    pub(crate) fn addresses(&self, user: u64) -> VringConfigData {
        VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: user + self.at(0).0,
            used_ring_addr: user + self.at(USED).0,
            avail_ring_addr: user + self.at(AVAIL).0,
            log_addr: None,
        }
    }

    pub(crate) fn used_index(&self, ram: &GuestMemoryMmap) -> u16 {
        ram.load(self.at(USED + 2), Ordering::Acquire).unwrap()
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn submit(&mut self, ram: &GuestMemoryMmap, kind: u32, sector: u64, data_bytes: &[u8]) -> u16 {
        let slot = self.free.pop().expect("a free slot");
        let header = self.at(HEADERS + HEADER_BYTES * u64::from(slot));
        let words = [u64::from(kind), sector];
        words
            .iter()
            .zip([0, 8])
            .for_each(|(word, at)| ram.write_obj(*word, GuestAddress(header.0 + at)).unwrap());
        let status = GuestAddress(header.0 + 16);
        ram.write_obj(0xee_u8, status).unwrap();
        let payload = data(self.index, slot);
        ram.write_slice(data_bytes, payload).unwrap();
        let length = u32::try_from(data_bytes.len()).unwrap();
        let (next, write) = (1, if matches!(kind, READ | GET_ID) { 2 } else { 0 });
        let first = slot * 3;
        match length {
            0 => self.descriptor(ram, first, (header, 16, next, first + 2)),
            _ => self.descriptor(ram, first, (header, 16, next, first + 1)),
        }
        self.descriptor(ram, first + 1, (payload, length, next | write, first + 2));
        self.descriptor(ram, first + 2, (status, 1, 2, 0));
        let place = AVAIL + 4 + 2 * u64::from(self.available % SIZE);
        ram.write_obj(first, self.at(place)).unwrap();
        self.available = self.available.wrapping_add(1);
        ram.store(self.available, self.at(AVAIL + 2), Ordering::Release).unwrap();
        slot
    }

    fn descriptor(
        &self,
        ram: &GuestMemoryMmap,
        index: u16,
        (address, length, flags, next): (GuestAddress, u32, u16, u16),
    ) {
        let place = self.at(16 * u64::from(index)).0;
        ram.write_obj(address.0, GuestAddress(place)).unwrap();
        ram.write_obj(length, GuestAddress(place + 8)).unwrap();
        ram.write_obj(flags, GuestAddress(place + 12)).unwrap();
        ram.write_obj(next, GuestAddress(place + 14)).unwrap();
    }

    pub(crate) fn kick_if_wanted(&mut self, ram: &GuestMemoryMmap) {
        fence(Ordering::SeqCst);
        let wanted = match self.event_idx {
            true => {
                let event: u16 =
                    ram.load(self.at(USED + 4 + 8 * u64::from(SIZE)), Ordering::Acquire).unwrap();
                let (new, old) = (self.available, self.kicked);
                new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
            }
            false => ram.load::<u16>(self.at(USED), Ordering::Acquire).unwrap() & 1 == 0,
        };
        self.kicked = self.available;
        if wanted {
            self.kick.write(1).unwrap();
        }
    }

    pub(crate) fn wait(&mut self, ram: &GuestMemoryMmap, limit: Duration) -> Option<Vec<CompletedRequest>> {
        loop {
            let ended = self.take(ram);
            if !ended.is_empty() {
                return Some(ended);
            }
            if self.event_idx {
                ram.store(self.seen, self.at(AVAIL + 4 + 2 * u64::from(SIZE)), Ordering::Release).unwrap();
                fence(Ordering::SeqCst);
                if self.used_index(ram) != self.seen {
                    continue;
                }
            }
            if !readable(&self.call, limit) {
                return None;
            }
            let _ = self.call.read();
        }
    }

    fn take(&mut self, ram: &GuestMemoryMmap) -> Vec<CompletedRequest> {
        let used = self.used_index(ram);
        let mut ended = Vec::new();
        while self.seen != used {
            let place = USED + 4 + 8 * u64::from(self.seen % SIZE);
            let head: u32 = ram.read_obj(self.at(place)).unwrap();
            let written = ram.read_obj(self.at(place + 4)).unwrap();
            let slot = u16::try_from(head / 3).unwrap();
            assert!(
                head.is_multiple_of(3) && !self.free.contains(&slot),
                "an answer to what nobody asked: {head}"
            );
            let status = ram.read_obj(self.at(HEADERS + HEADER_BYTES * u64::from(slot) + 16)).unwrap();
            self.free.push(slot);
            self.seen = self.seen.wrapping_add(1);
            ended.push(CompletedRequest { slot, status, written });
        }
        ended
    }
}

fn readable(event: &EventFd, limit: Duration) -> bool {
    // SAFETY: the descriptor is open as long as `event` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(event)) };
    let limit =
        Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap(), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], Some(&limit)).unwrap() > 0
}
