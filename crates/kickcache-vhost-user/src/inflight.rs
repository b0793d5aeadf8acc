//! Requests in flight, written down in memory that the front end keeps when this daemon dies.
//!
//! The layout is that of the vhost-user specification for split rings: for each queue a header of 16 bytes (features,
//! version, number of entries, head of the last batch, used index) and 16 bytes a descriptor (in flight, next of the
//! batch, counter). Behind the queues are 64 bytes that only this device uses: whether the guest switched the write
//! cache off.
//!
//! Invariants:
//! - A head is marked before its request begins, and unmarked after the used ring has it.
//! - The used index here lags behind the index of the used ring by at most one: the head that is being handed over.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::{AtomicAccess, Bytes, FileOffset, MmapRegion, VolatileMemory};

use super::config_space::WriteCache;
use super::features::{QUEUE_COUNT_MAX, QUEUE_SIZE_MAX};
use super::guard::Guard;
use super::memory::check_file;
use super::message::ProtocolError;

const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
const ALIGNMENT: usize = 64;
const OWN_BYTES: usize = 64;
const VERSION: u16 = 1;

const VERSION_AT: usize = 8;
const ENTRIES_AT: usize = 10;
const BATCH_AT: usize = 12;
const USED_AT: usize = 14;
const NEXT_AT: usize = 6;
const COUNTER_AT: usize = 8;

pub(super) struct Inflight {
    /// Dropped before the mapping is.
    guard: Guard,
    map: MmapRegion,
    queues: u16,
    entries: u16,
}

fn queue_bytes(entries: u16) -> usize {
    (HEADER_BYTES + ENTRY_BYTES * usize::from(entries)).next_multiple_of(ALIGNMENT)
}

fn bytes(queues: u16, entries: u16) -> usize {
    queue_bytes(entries) * usize::from(queues) + OWN_BYTES
}

fn check(queues: u16, entries: u16) -> Result<(), ProtocolError> {
    if !(1..=QUEUE_COUNT_MAX).contains(&queues) {
        return Err(ProtocolError::Value { what: "a number of queues of", found: queues.into() });
    }
    if !(1..=QUEUE_SIZE_MAX).contains(&entries) {
        return Err(ProtocolError::Value { what: "a queue size of", found: entries.into() });
    }
    Ok(())
}

pub(super) struct NewMemory {
    pub(super) message: VhostUserInflight,
    pub(super) fd: OwnedFd,
}

/// Makes fresh memory for this many queues; the front end hands it back by SET_INFLIGHT_FD.
pub(super) fn create(queues: u16, entries: u16) -> Result<NewMemory, ProtocolError> {
    check(queues, entries)?;
    let size = u64::try_from(bytes(queues, entries)).expect("some hundred KiB");
    let fd = memfd_create("kickcache-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(io::Error::from)?;
    ftruncate(&fd, size).map_err(io::Error::from)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(io::Error::from)?;
    Ok(NewMemory { message: VhostUserInflight::new(size, 0, queues, entries), fd })
}

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Recovered {
    /// The heads, in the order in which they began.
    pub(super) heads: Vec<u16>,
    pub(super) next: u64,
}

impl Inflight {
    /// Maps the memory that the front end hands over.
    pub(super) fn open(message: &VhostUserInflight, fd: OwnedFd) -> Result<Inflight, ProtocolError> {
        let (queues, entries) = (message.num_queues, message.queue_size);
        check(queues, entries)?;
        let needed = bytes(queues, entries);
        if usize::try_from(message.mmap_size).map_or(true, |size| size < needed) {
            return Err(ProtocolError::Value { what: "in-flight memory of size", found: message.mmap_size });
        }
        check_file(&fd, message.mmap_offset, message.mmap_size)?;
        let file = FileOffset::new(File::from(fd), message.mmap_offset);
        let failed = |why: String| ProtocolError::Memory { what: "the memory for requests in flight", why };
        let map = MmapRegion::from_file(file, needed).map_err(|error| failed(error.to_string()))?;
        let guard = Guard::new(map.as_ptr(), needed).map_err(|error| failed(error.to_string()))?;
        Ok(Inflight { guard, map, queues, entries })
    }

    pub(super) fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    pub(super) fn has(&self, queue: u16, size: u16) -> bool {
        queue < self.queues && size <= self.entries
    }

    /// The guest's write cache: 1 means that the guest switched it off.
    pub(super) fn write_cache(&self) -> WriteCache {
        if self.load::<u8>(self.own()) == 1 { WriteCache::Off } else { WriteCache::On }
    }

    pub(super) fn set_write_cache(&self, write_cache: WriteCache) {
        self.store(self.own(), u8::from(write_cache == WriteCache::Off));
    }

    fn own(&self) -> usize {
        queue_bytes(self.entries) * usize::from(self.queues)
    }

    pub(super) fn begin(&self, queue: u16, head: u16, counter: u64) {
        let entry = self.entry(queue, head);
        self.store(entry + COUNTER_AT, counter);
        fence(Ordering::Release);
        self.store(entry, 1_u8);
    }

    /// Writes down that a head is about to be put on the used ring.
    pub(super) fn hand_over(&self, queue: u16, head: u16) {
        let last: u16 = self.load(self.header(queue) + BATCH_AT);
        self.store(self.entry(queue, head) + NEXT_AT, last);
        self.store(self.header(queue) + BATCH_AT, head);
        fence(Ordering::Release);
    }

    /// Writes down that the used ring has the head, and that `used` is the index of the ring.
    pub(super) fn end(&self, queue: u16, head: u16, used: u16) {
        fence(Ordering::Release);
        self.store(self.entry(queue, head), 0_u8);
        fence(Ordering::Release);
        self.store(self.header(queue) + USED_AT, used);
    }

    /// The requests that were left in flight; fresh memory is prepared, and has none.
    pub(super) fn recover(&self, queue: u16, used: u16) -> Recovered {
        let header = self.header(queue);
        if self.load::<u16>(header + VERSION_AT) != VERSION {
            self.store(header + ENTRIES_AT, self.entries);
            self.store(header + VERSION_AT, VERSION);
        }
        self.finish_batch(queue, used);
        self.store(header + USED_AT, used);
        let marked = (0..self.entries).filter(|head| self.load::<u8>(self.entry(queue, *head)) == 1);
        let mut found: Vec<(u64, u16)> =
            marked.map(|head| (self.load(self.entry(queue, head) + COUNTER_AT), head)).collect();
        found.sort_unstable();
        let next = found.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Recovered { heads: found.into_iter().map(|(_, head)| head).collect(), next }
    }

    /// Clears the mark of entries that are in the used ring already.
    fn finish_batch(&self, queue: u16, used: u16) {
        let header = self.header(queue);
        let behind = used.wrapping_sub(self.load(header + USED_AT));
        let mut head: u16 = self.load(header + BATCH_AT);
        for _ in 0..behind.min(self.entries) {
            if head >= self.entries {
                return;
            }
            self.store(self.entry(queue, head), 0_u8);
            head = self.load(self.entry(queue, head) + NEXT_AT);
        }
    }

    fn header(&self, queue: u16) -> usize {
        assert!(queue < self.queues, "the queue was checked when it started");
        queue_bytes(self.entries) * usize::from(queue)
    }

    fn entry(&self, queue: u16, head: u16) -> usize {
        assert!(head < self.entries, "heads are below the size of their queue");
        self.header(queue) + HEADER_BYTES + ENTRY_BYTES * usize::from(head)
    }

    fn load<T: AtomicAccess>(&self, at: usize) -> T {
        let slice = self.map.get_slice(at, size_of::<T>()).expect("offsets are inside of the mapping");
        slice.load(0, Ordering::Acquire).expect("offsets are aligned")
    }

    fn store<T: AtomicAccess>(&self, at: usize, value: T) {
        let slice = self.map.get_slice(at, size_of::<T>()).expect("offsets are inside of the mapping");
        slice.store(value, 0, Ordering::Release).expect("offsets are aligned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(queues: u16, entries: u16) -> (VhostUserInflight, OwnedFd) {
        let NewMemory { message, fd } = create(queues, entries).unwrap();
        (message, fd)
    }

    fn open(message: &VhostUserInflight, fd: &OwnedFd) -> Inflight {
        Inflight::open(message, fd.try_clone().unwrap()).unwrap()
    }

    #[test]
    fn requests_in_flight_are_recovered_in_order() {
        let (message, fd) = memory(2, 8);
        let first = open(&message, &fd);
        assert_eq!(first.recover(1, 0), Recovered { heads: vec![], next: 0 });
        for (counter, head) in [(0, 5), (1, 2), (2, 7), (3, 0)] {
            first.begin(1, head, counter);
        }
        first.hand_over(1, 2);
        first.end(1, 2, 1);
        drop(first);
        let second = open(&message, &fd);
        assert_eq!(second.recover(1, 1), Recovered { heads: vec![5, 7, 0], next: 4 });
        assert_eq!(second.recover(0, 0), Recovered { heads: vec![], next: 0 });
    }

    #[test]
    fn a_head_in_the_used_ring_is_not_repeated() {
        let (message, fd) = memory(1, 8);
        let first = open(&message, &fd);
        first.recover(0, 0);
        first.begin(0, 3, 0);
        first.begin(0, 4, 1);
        // The daemon died between the used ring and the mark: the ring says 1, the memory 0.
        first.hand_over(0, 3);
        drop(first);
        assert_eq!(open(&message, &fd).recover(0, 1), Recovered { heads: vec![4], next: 2 });
    }

    #[test]
    fn a_head_missing_in_the_used_ring_is_repeated() {
        let (message, fd) = memory(1, 8);
        let first = open(&message, &fd);
        first.recover(0, 0);
        first.begin(0, 3, 0);
        first.hand_over(0, 3);
        drop(first);
        assert_eq!(open(&message, &fd).recover(0, 0), Recovered { heads: vec![3], next: 1 });
    }

    #[test]
    fn the_write_cache_is_remembered() {
        let (message, fd) = memory(16, 1024);
        assert_eq!(open(&message, &fd).write_cache(), WriteCache::On);
        open(&message, &fd).set_write_cache(WriteCache::Off);
        assert_eq!(open(&message, &fd).write_cache(), WriteCache::Off);
    }

    #[test]
    fn foreign_memory_does_no_harm() {
        let (message, fd) = memory(1, 8);
        let inflight = open(&message, &fd);
        inflight.recover(0, 0);
        inflight.store(BATCH_AT, 4000_u16);
        assert_eq!(inflight.recover(0, 9).heads, Vec::<u16>::new());
        inflight.store(BATCH_AT, 1_u16);
        inflight.store(HEADER_BYTES + ENTRY_BYTES + NEXT_AT, 1_u16);
        inflight.store(HEADER_BYTES + ENTRY_BYTES * 2, 1_u8);
        assert_eq!(inflight.recover(0, 20).heads, vec![2]);
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let (message, fd) = memory(2, 8);
        let lie = VhostUserInflight { num_queues: 16, ..message };
        assert!(Inflight::open(&lie, fd.try_clone().unwrap()).is_err());
        let lie = VhostUserInflight { num_queues: 16, mmap_size: 1 << 20, ..message };
        assert!(Inflight::open(&lie, fd).is_err());
        assert!(create(17, 8).is_err() && create(0, 8).is_err() && create(1, 2048).is_err());
    }
}
