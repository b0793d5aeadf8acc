//! The memory of requests and the engine's pool of pages.
//!
//! A request's payload lies so that its address and its place on the volume agree modulo 4096: whole blocks and
//! sectors of it can be read and written directly.

use std::io;

use kickcache_engine::config::VOLUME_COUNT_MAX;
use kickcache_engine::device::{Memory, Piece};
use kickcache_engine::request::RequestId;
use kickcache_engine::units::{BLOCK_BYTES, ByteExtent};

use crate::driver::memory::{Allocator, Chunk, Mapping};

/// Payloads of requests and pages of the engine.
pub struct Buffers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(crate) allocator: Allocator,
    pool: Mapping,
    bytes: usize,
    bytes_max: usize,
    /// By volume: its part of the bytes in use.
    owned: Vec<usize>,
    owned_max: usize,
}

/// Of the bound of all requests, the part that one of several volumes may have: what waits for an origin that does not answer
/// must not take all memory.
const OWNED_PART: usize = 2;

/// The part of one volume, of the bound of all requests.
const fn owned_max(bytes_max: usize, volumes: usize) -> usize {
    if volumes > 1 { bytes_max / OWNED_PART } else { bytes_max }
}

/// Whether a request may pass the bound of all requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// No.
    Kept,
    /// Yes: each client may have one request in flight, so that others cannot keep it out.
    Ignored,
}

#[derive(Debug)]
enum Slot {
    Free,
    Empty,
    Lent { chunk: Chunk, length: usize },
    Payload { chunk: Chunk, shift: usize, length: usize, owner: usize },
}

/// Where a payload lies.
struct Bytes {
    address: *mut u8,
    length: usize,
}

impl Buffers {
    /// Buffers with a bound on the payload bytes in use by this many volumes, and a pool of 4 KiB pages.
    ///
    /// # Errors
    /// If the system has no memory.
    pub fn new(bytes_max: usize, volumes: usize, pool_pages: u32) -> io::Result<Buffers> {
        let pages = usize::try_from(pool_pages).expect("usize has at least 32 bits");
        let pool = Mapping::new(pages.max(1) * BLOCK_BYTES)?;
        let allocator = Allocator::default();
        Ok(Buffers {
            slots: Vec::new(),
            free: Vec::new(),
            allocator,
            pool,
            bytes: 0,
            bytes_max,
            owned: vec![0; VOLUME_COUNT_MAX.max(volumes)],
            owned_max: owned_max(bytes_max, volumes),
        })
    }

    /// This many volumes share the bound from here on.
    pub(crate) fn set_volumes(&mut self, volumes: usize) {
        self.owned_max = owned_max(self.bytes_max, volumes);
    }

    /// A request with memory for the bytes of an extent of a volume, given by its number, or `None` if that would pass the
    /// bound of all requests or the volume's part of it. A request larger than that is let through when nothing else is
    /// in use.
    ///
    /// # Errors
    /// If the system has no memory.
    pub fn allocate(
        &mut self,
        owner: usize,
        extent: ByteExtent,
        bound: Bound,
    ) -> io::Result<Option<RequestId>> {
        let shift = usize::try_from(extent.start % 4096).expect("below 4096");
        let length = usize::try_from(extent.length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let passes = |used: usize, most: usize| used != 0 && used + length > most;
        let is_over = passes(self.bytes, self.bytes_max) || passes(self.owned[owner], self.owned_max);
        if bound == Bound::Kept && is_over {
            return Ok(None);
        }
        let chunk = self.allocator.allocate(shift + length)?;
        self.bytes += length;
        self.owned[owner] += length;
        Ok(Some(self.place(Slot::Payload { chunk, shift, length, owner })))
    }

    /// A request in memory that somebody lends for as long as it is in use, from its first byte on: it must be that of a page
    /// of the volume. It counts for no bound.
    pub(crate) fn lend(&mut self, chunk: Chunk, length: usize) -> RequestId {
        assert!(length <= chunk.length(), "a request larger than what is lent");
        self.place(Slot::Lent { chunk, length })
    }

    /// Gives back what was lent for a request, which ends.
    ///
    /// # Panics
    /// If nothing was.
    pub(crate) fn take_back(&mut self, id: RequestId) -> Chunk {
        let slot = std::mem::replace(&mut self.slots[index(id)], Slot::Free);
        let Slot::Lent { chunk, .. } = slot else { panic!("request {id:?} has memory of its own") };
        self.free.push(id.get());
        chunk
    }

    /// A request without memory.
    pub fn allocate_empty(&mut self) -> RequestId {
        self.place(Slot::Empty)
    }

    /// Takes a request's memory back.
    ///
    /// # Panics
    /// If the request is not in use.
    pub fn release(&mut self, id: RequestId) {
        let slot = std::mem::replace(&mut self.slots[index(id)], Slot::Free);
        match slot {
            Slot::Free => panic!("request {id:?} was released twice"),
            Slot::Lent { .. } => panic!("what was lent for request {id:?} is to be given back"),
            Slot::Empty => {}
            Slot::Payload { chunk, length, owner, .. } => {
                self.bytes -= length;
                self.owned[owner] -= length;
                self.allocator.release(chunk);
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

    /// Payload bytes in use.
    pub fn bytes_in_use(&self) -> usize {
        self.bytes
    }

    /// Where a piece lies.
    ///
    /// # Panics
    /// If the piece does not lie within its request's payload, or the pool: that is a defect of the engine, and
    /// going on would overwrite foreign memory.
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
                self.pool.address(usize::try_from(start).expect("the pool lies in memory"), length)
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

fn index(id: RequestId) -> usize {
    usize::try_from(id.get()).expect("usize has at least 32 bits")
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::PageIndex;

    use super::*;

    fn extent(start: u64, length: u64) -> ByteExtent {
        ByteExtent { start, length }
    }

    #[test]
    fn payload_lies_like_the_volume() {
        let mut buffers = Buffers::new(1 << 20, 1, 4).unwrap();
        for start in [0, 1, 512, 4095, 8192] {
            let id = buffers.allocate(0, extent(start, 5000), Bound::Kept).unwrap().unwrap();
            assert_eq!(buffers.payload(id).as_ptr().addr() as u64 % 4096, start % 4096);
            assert_eq!(buffers.payload_mut(id).len(), 5000);
            buffers.release(id);
        }
        assert_eq!(buffers.bytes_in_use(), 0);
    }

    #[test]
    fn what_is_lent_is_the_payload_and_comes_back() {
        let mut buffers = Buffers::new(4096, 1, 1).unwrap();
        let mut chunk = buffers.allocator.allocate(8192).unwrap();
        chunk.bytes_mut(8192).fill(7);
        let base = chunk.base();
        let id = buffers.lend(chunk, 5000);
        assert_eq!((buffers.payload(id).len(), buffers.payload(id)[4999]), (5000, 7));
        assert_eq!(buffers.bytes_in_use(), 0);
        assert!(
            buffers.allocate(0, extent(0, 4096), Bound::Kept).unwrap().is_some(),
            "it counts for no bound"
        );
        let chunk = buffers.take_back(id);
        assert_eq!(chunk.base(), base);
        buffers.allocator.release(chunk);
    }

    #[test]
    fn the_bound_holds_but_never_blocks_the_only_request() {
        let mut buffers = Buffers::new(8192, 1, 1).unwrap();
        let large = buffers.allocate(0, extent(0, 1 << 20), Bound::Kept).unwrap().unwrap();
        assert!(buffers.allocate(0, extent(0, 1), Bound::Kept).unwrap().is_none());
        buffers.release(large);
        assert!(buffers.allocate(0, extent(0, 4096), Bound::Kept).unwrap().is_some());
        assert!(buffers.allocate(0, extent(0, 4096), Bound::Kept).unwrap().is_some());
        assert!(buffers.allocate(0, extent(0, 1), Bound::Kept).unwrap().is_none());
    }

    #[test]
    fn a_volume_leaves_half_to_the_others() {
        let mut buffers = Buffers::new(16_384, 2, 1).unwrap();
        let mut allocate = |owner| buffers.allocate(owner, extent(0, 4096), Bound::Kept).unwrap();
        let own = [allocate(0), allocate(0)].map(Option::unwrap);
        assert!(allocate(0).is_none(), "the other half is the others'");
        assert!(allocate(1).is_some() && allocate(1).is_some() && allocate(1).is_none());
        own.into_iter().for_each(|id| buffers.release(id));
        assert!(buffers.allocate(0, extent(0, 4096), Bound::Kept).unwrap().is_some());
    }

    #[test]
    fn pool_pieces_run_on_into_the_next_page() {
        let buffers = Buffers::new(0, 1, 2).unwrap();
        let first = Piece { memory: Memory::Pool { page: PageIndex::new(0), offset: 4095 }, length: 4097 };
        let second = Piece { memory: Memory::Pool { page: PageIndex::new(1), offset: 0 }, length: 4096 };
        assert_eq!(buffers.address(first).wrapping_add(1), buffers.address(second));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn pieces_outside_of_the_pool_are_refused() {
        let buffers = Buffers::new(0, 1, 2).unwrap();
        buffers.address(Piece { memory: Memory::Pool { page: PageIndex::new(1), offset: 1 }, length: 4096 });
    }
}
