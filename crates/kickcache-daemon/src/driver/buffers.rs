//! The memory of requests and the engine's pool of pages.
//!
//! A request's payload is placed so that its address and its place on the volume agree modulo 4096: its whole
//! blocks and sectors can be read and written directly.

use std::io;

use kickcache_engine::device::{Memory, Piece};
use kickcache_engine::request::RequestId;
use kickcache_engine::units::{BLOCK_BYTES, ByteExtent};

use crate::driver::budget::{Budget, Grant};
use crate::driver::memory::{Allocator, Chunk, Mapping};

pub struct Buffers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(crate) allocator: Allocator,
    pool: Mapping,
    pub(crate) budget: Budget,
}

#[derive(Debug)]
enum Slot {
    Free,
    Empty,
    Lent { chunk: Chunk, length: usize },
    Payload { chunk: Chunk, shift: usize, length: usize, grant: Grant },
}

struct Bytes {
    address: *mut u8,
    length: usize,
}

impl Buffers {
    /// Buffers within a budget for payload, and a pool of 4 KiB pages.
    ///
    /// # Errors
    /// If the system has no memory.
    pub fn new(budget: Budget, pool_pages: u32) -> io::Result<Buffers> {
        let pages = usize::try_from(pool_pages).expect("usize has at least 32 bits");
        let pool = Mapping::new(pages.max(1) * BLOCK_BYTES)?;
        let allocator = Allocator::default();
        Ok(Buffers { slots: Vec::new(), free: Vec::new(), allocator, pool, budget })
    }

    /// Bytes that a request for an extent of a volume is charged with.
    pub(crate) fn cost(extent: ByteExtent) -> usize {
        Allocator::cost(
            shift(extent).saturating_add(usize::try_from(extent.length).unwrap_or(usize::MAX / 2)),
        )
    }

    /// A request with memory for an extent of a volume.
    ///
    /// # Errors
    /// If the system has no memory; the grant is released.
    pub(crate) fn allocate(&mut self, grant: Grant, extent: ByteExtent) -> io::Result<RequestId> {
        let shift = shift(extent);
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX / 2);
        match self.allocator.allocate(shift.saturating_add(length)) {
            Ok(chunk) => {
                self.limit_kept();
                Ok(self.place(Slot::Payload { chunk, shift, length, grant }))
            }
            Err(error) => {
                self.budget.release(grant);
                Err(error)
            }
        }
    }

    /// Returns free memory to the system, as far as it exceeds the unused part of the budget.
    fn limit_kept(&mut self) {
        self.allocator.keep_at_most(self.budget.unused_part());
    }

    /// Adds a request whose payload uses memory that the caller lends. The payload begins at the first byte
    /// of this memory, which must be the first byte of a page of the volume. Lent memory is not charged to
    /// the budget.
    pub(crate) fn lend(&mut self, chunk: Chunk, length: usize) -> RequestId {
        assert!(length <= chunk.length(), "a request larger than the lent memory");
        self.place(Slot::Lent { chunk, length })
    }

    /// Returns the memory lent for a request, which ends.
    ///
    /// # Panics
    /// If none was lent.
    pub(crate) fn take_back(&mut self, id: RequestId) -> Chunk {
        let slot = std::mem::replace(&mut self.slots[index(id)], Slot::Free);
        let Slot::Lent { chunk, .. } = slot else { panic!("request {id:?} has memory of its own") };
        self.free.push(id.get());
        chunk
    }

    pub fn allocate_empty(&mut self) -> RequestId {
        self.place(Slot::Empty)
    }

    /// Takes a request's memory back.
    ///
    /// # Panics
    /// If the request is not in use, or has lent memory.
    pub fn release(&mut self, id: RequestId) {
        let slot = std::mem::replace(&mut self.slots[index(id)], Slot::Free);
        match slot {
            Slot::Free => panic!("request {id:?} was released twice"),
            Slot::Lent { .. } => panic!("the memory lent for request {id:?} must be returned first"),
            Slot::Empty => {}
            Slot::Payload { chunk, grant, .. } => {
                self.budget.release(grant);
                self.allocator.release(chunk);
                self.limit_kept();
            }
        }
        self.free.push(id.get());
    }

    /// A request's payload; empty if it has none.
    ///
    /// To be called when no submission that names the request is in flight.
    pub fn payload(&self, id: RequestId) -> &[u8] {
        let Bytes { address, length } = self.whole(id);
        // SAFETY: `whole` gives memory of the slot, which is mapped and initialised; the kernel does not write to
        // it, because no submission that names the request is in flight.
        unsafe { std::slice::from_raw_parts(address, length) }
    }

    /// A request's payload for writing; empty if it has none.
    ///
    /// To be called before the request is handed to the engine.
    pub fn payload_mut(&mut self, id: RequestId) -> &mut [u8] {
        let Bytes { address, length } = self.whole(id);
        // SAFETY: as for `payload`, and the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(address, length) }
    }

    /// The address of a piece of memory.
    ///
    /// # Panics
    /// If the piece does not lie within its request's payload, or the pool.
    pub(crate) fn address(&self, piece: Piece) -> *mut u8 {
        let length = usize::try_from(piece.length).expect("usize has at least 32 bits");
        match piece.memory {
            Memory::Request { id, offset } => {
                let offset = usize::try_from(offset).expect("usize has at least 32 bits");
                let Bytes { address, length: available } = self.whole(id);
                assert!(
                    offset <= available && length <= available - offset,
                    "piece outside of request {id:?}"
                );
                address.wrapping_add(offset)
            }
            Memory::Pool { page, offset } => {
                let start = page.byte_offset() + u64::from(offset);
                self.pool.address(usize::try_from(start).expect("the pool fits the address space"), length)
            }
        }
    }

    fn whole(&self, id: RequestId) -> Bytes {
        match &self.slots[index(id)] {
            Slot::Payload { chunk, shift, length, .. } => {
                Bytes { address: chunk.base().wrapping_add(*shift), length: *length }
            }
            Slot::Lent { chunk, length } => Bytes { address: chunk.base(), length: *length },
            Slot::Free => panic!("request {id:?} is not in use"),
            Slot::Empty => Bytes { address: std::ptr::NonNull::dangling().as_ptr(), length: 0 },
        }
    }

    fn place(&mut self, slot: Slot) -> RequestId {
        if let Some(free) = self.free.pop() {
            self.slots[index(RequestId::new(free))] = slot;
            return RequestId::new(free);
        }
        self.slots.push(slot);
        RequestId::new(u32::try_from(self.slots.len() - 1).expect("requests in flight are bounded"))
    }
}

/// The offset of a payload in its first page.
fn shift(extent: ByteExtent) -> usize {
    usize::try_from(extent.start % 4096).expect("below 4096")
}

fn index(id: RequestId) -> usize {
    usize::try_from(id.get()).expect("usize has at least 32 bits")
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::PageIndex;

    use super::*;
    use crate::driver::budget::Claim;

    fn extent(start: u64, length: u64) -> ByteExtent {
        ByteExtent { start, length }
    }

    fn buffers(bytes: usize, pool_pages: u32) -> Buffers {
        Buffers::new(Budget::alone(bytes), pool_pages).unwrap()
    }

    fn allocate(buffers: &mut Buffers, extent: ByteExtent) -> Option<RequestId> {
        let claim = Claim { volume: 0, bytes: Buffers::cost(extent), held: 0, key: 1 };
        buffers.budget.reserve(claim).map(|grant| buffers.allocate(grant, extent).unwrap())
    }

    #[test]
    fn payload_lies_like_the_volume() {
        let mut buffers = buffers(1 << 20, 4);
        for start in [0, 1, 512, 4095, 8192] {
            let id = allocate(&mut buffers, extent(start, 5000)).unwrap();
            assert_eq!(buffers.payload(id).as_ptr().addr() as u64 % 4096, start % 4096);
            assert_eq!(buffers.payload_mut(id).len(), 5000);
            buffers.release(id);
        }
        assert_eq!(buffers.budget.used(), 0);
    }

    #[test]
    fn lent_memory_is_the_payload_and_is_returned() {
        let mut buffers = buffers(32_768, 1);
        let mut chunk = buffers.allocator.allocate(8192).unwrap();
        chunk.bytes_mut(8192).fill(7);
        let base = chunk.base();
        let id = buffers.lend(chunk, 5000);
        assert_eq!((buffers.payload(id).len(), buffers.payload(id)[4999]), (5000, 7));
        assert_eq!(buffers.budget.used(), 0, "it counts for no bound");
        let chunk = buffers.take_back(id);
        assert_eq!(chunk.base(), base);
        buffers.allocator.release(chunk);
    }

    #[test]
    fn reusable_memory_stays_within_the_budget() {
        let mut buffers = buffers(4 << 20, 1);
        let ids: Vec<RequestId> =
            std::iter::from_fn(|| allocate(&mut buffers, extent(0, 512 << 10))).collect();
        assert!(buffers.budget.used() > 2 << 20);
        ids.into_iter().for_each(|id| buffers.release(id));
        assert_eq!(buffers.budget.used(), 0);
        assert!(buffers.allocator.kept_bytes() <= buffers.budget.unused_part());
    }

    #[test]
    fn pool_pieces_run_on_into_the_next_page() {
        let buffers = buffers(0, 2);
        let first = Piece { memory: Memory::Pool { page: PageIndex::new(0), offset: 4095 }, length: 4097 };
        let second = Piece { memory: Memory::Pool { page: PageIndex::new(1), offset: 0 }, length: 4096 };
        assert_eq!(buffers.address(first).wrapping_add(1), buffers.address(second));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn pieces_outside_of_the_pool_are_refused() {
        let buffers = buffers(0, 2);
        buffers.address(Piece { memory: Memory::Pool { page: PageIndex::new(1), offset: 1 }, length: 4096 });
    }
}
