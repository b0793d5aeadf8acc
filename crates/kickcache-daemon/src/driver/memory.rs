//! Page-aligned memory for direct I/O.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The alignment of all memory handed out here, and the smallest size.
pub(crate) const PAGE: usize = 4096;
/// The largest size in bytes that is cut from shared mappings.
const CARVED_MAX: usize = 128 << 10;
/// Bytes of a mapping that small sizes are cut from.
const CARVE_MAPPING: usize = 1 << 20;
/// The most bytes that an allocator keeps for reuse, in all.
const KEPT_MAX: usize = 64 << 20;
/// Number of sizes: 4 KiB to 64 MiB.
const CLASS_COUNT: usize = 15;

/// An anonymous private mapping, unmapped on drop.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain memory that belongs to its owner alone.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(crate) fn new(length: usize) -> io::Result<Mapping> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, flags)? };
        let base = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap gave address zero"))?;
        Ok(Mapping { base, length })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn address(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= self.length && length <= self.length - offset, "memory outside of its mapping");
        self.base().wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no reference to it outlives its owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// Aligned memory handed out by an [`Allocator`]; must be given back to it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Chunk {
    base: NonNull<u8>,
    class: u8,
    /// Bytes from the start of this memory that may have pages.
    cost: usize,
}

// SAFETY: a stretch is plain memory that belongs to its owner alone.
unsafe impl Send for Chunk {}

impl Chunk {
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        PAGE << self.class
    }

    pub(crate) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.length());
        // SAFETY: the stretch has that many bytes, mmap zeroed them once, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), length) }
    }
}

/// Hands out page-aligned memory in powers of two from 4 KiB to 64 MiB.
///
/// Invariant: free memory is counted by its present pages, and at most [`KEPT_MAX`] free bytes are present.
#[derive(Default)]
pub(crate) struct Allocator {
    free: [FreeList; CLASS_COUNT],
    mappings: Vec<Mapping>,
    kept: usize,
}

/// Free memory of one size; the stretch that was used last is on top.
#[derive(Default)]
struct FreeList {
    stretches: Vec<Free>,
    /// The number of stretches at the bottom without pages.
    cold: usize,
}

/// A free stretch; its first `present` bytes may have pages.
struct Free {
    base: NonNull<u8>,
    present: usize,
}

// SAFETY: the free lists point into memory that belongs to the allocator alone.
unsafe impl Send for Allocator {}

impl Allocator {
    /// Bytes that an allocation of this length may make present.
    pub(crate) fn cost(length: usize) -> usize {
        let class = PAGE << class_of(length);
        if class <= CARVED_MAX { class } else { length.next_multiple_of(PAGE) }
    }

    pub(crate) fn allocate(&mut self, length: usize) -> io::Result<Chunk> {
        let class = class_of(length);
        if usize::from(class) >= CLASS_COUNT {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if self.free[usize::from(class)].stretches.is_empty() {
            self.map(class)?;
        }
        let list = &mut self.free[usize::from(class)];
        let mut free = list.stretches.pop().expect("the list was filled above");
        list.cold = list.cold.min(list.stretches.len());
        self.kept -= free.present;
        let cost = Allocator::cost(length);
        if free.present > cost {
            free.discard(cost);
        }
        Ok(Chunk { base: free.base, class, cost })
    }

    #[expect(clippy::needless_pass_by_value, reason = "the caller must not keep returned memory")]
    pub(crate) fn release(&mut self, chunk: Chunk) {
        let free = Free { base: chunk.base, present: chunk.cost };
        self.kept += free.present;
        self.free[usize::from(chunk.class)].stretches.push(free);
        self.keep_at_most(KEPT_MAX);
    }

    /// Returns pages of free memory to the system, large stretches first, until at most this many bytes are present.
    pub(crate) fn keep_at_most(&mut self, bytes: usize) {
        if self.kept <= bytes {
            return;
        }
        for class in (0..CLASS_COUNT).rev() {
            while self.kept > bytes && self.free[class].cold < self.free[class].stretches.len() {
                self.give_back(class);
            }
        }
    }

    /// Returns the pages of the free stretch of a class that was not used for longest; a large one is unmapped.
    fn give_back(&mut self, class: usize) {
        let (list, length) = (&mut self.free[class], PAGE << class);
        if length > CARVED_MAX {
            let free = list.stretches.remove(list.cold);
            self.kept -= free.present;
            return drop(Mapping { base: free.base, length });
        }
        let free = &mut list.stretches[list.cold];
        self.kept -= free.present;
        free.discard(0);
        list.cold += 1;
    }

    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept
    }

    fn map(&mut self, class: u8) -> io::Result<()> {
        let (length, list) = (PAGE << class, &mut self.free[usize::from(class)]);
        let free = |base| Free { base, present: 0 };
        if length > CARVED_MAX {
            let mapping = std::mem::ManuallyDrop::new(Mapping::new(length)?);
            list.stretches.push(free(mapping.base));
        } else {
            let mapping = Mapping::new(CARVE_MAPPING)?;
            for offset in (0..CARVE_MAPPING).step_by(length).rev() {
                let address = mapping.address(offset, length);
                list.stretches.push(free(NonNull::new(address).expect("inside of a mapping")));
            }
            self.mappings.push(mapping);
        }
        list.cold = list.stretches.len();
        Ok(())
    }
}

impl Free {
    /// Returns the pages behind the first `kept` bytes to the system; they read as zeroes afterwards.
    fn discard(&mut self, kept: usize) {
        let length = self.present - kept;
        let address = self.base.as_ptr().wrapping_add(kept).cast::<c_void>();
        // SAFETY: the stretch is free and belongs to the allocator alone: no reference to its contents exists.
        let _ = unsafe { madvise(address, length, Advice::LinuxDontNeed) };
        self.present = kept;
    }
}

/// The binary logarithm of the number of pages that a length needs, rounded up.
fn class_of(length: usize) -> u8 {
    let class = length.div_ceil(PAGE).next_power_of_two().trailing_zeros();
    u8::try_from(class).expect("a logarithm is small")
}

impl Drop for Allocator {
    fn drop(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            let length = PAGE << class;
            if length > CARVED_MAX {
                list.stretches.drain(..).for_each(|free| drop(Mapping { base: free.base, length }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_aligned_and_reused() {
        let mut allocator = Allocator::default();
        for length in [1, 4096, 4097, 100_000, 1 << 20, (32 << 20) + 1] {
            let mut chunk = allocator.allocate(length).unwrap();
            assert!(chunk.length() >= length && chunk.base().addr() % PAGE == 0);
            chunk.bytes_mut(length).fill(1);
            let base = chunk.base();
            allocator.release(chunk);
            let again = allocator.allocate(length).unwrap();
            assert_eq!(again.base(), base);
            allocator.release(again);
        }
        assert!(allocator.allocate(65 << 20).is_err());
    }

    #[test]
    fn reusable_memory_is_returned() {
        let mut allocator = Allocator::default();
        let (small, large) = (allocator.allocate(4096).unwrap(), allocator.allocate(1 << 20).unwrap());
        let base = small.base();
        allocator.release(small);
        allocator.release(large);
        assert_eq!(allocator.kept, (1 << 20) + 4096);
        allocator.keep_at_most(4096);
        assert_eq!(allocator.kept, 4096, "large stretches go first");
        allocator.keep_at_most(0);
        assert_eq!(allocator.kept, 0);
        let mut again = [4096, 1 << 20].map(|length| allocator.allocate(length).unwrap());
        assert!(again.iter_mut().all(|chunk| chunk.bytes_mut(4096)[4095] == 0), "new pages");
        assert_eq!(allocator.kept, 0);
        assert!(again.iter().any(|chunk| chunk.base() == base), "the address of a small one is kept");
        again.into_iter().for_each(|chunk| allocator.release(chunk));
    }

    #[test]
    fn no_more_is_kept_than_the_bound_whatever_its_size() {
        let mut allocator = Allocator::default();
        for length in [4096, 128 << 10, 1 << 20] {
            let chunks: Vec<Chunk> =
                (0..(80 << 20) / length).map(|_| allocator.allocate(length).unwrap()).collect();
            chunks.into_iter().for_each(|chunk| allocator.release(chunk));
            assert!(allocator.kept <= KEPT_MAX);
            let present = |list: &FreeList| list.stretches.iter().map(|free| free.present).sum::<usize>();
            assert_eq!(allocator.free.iter().map(present).sum::<usize>(), allocator.kept);
        }
    }

    #[test]
    fn a_large_stretch_has_no_pages_beyond_its_charge() {
        let mut allocator = Allocator::default();
        let mut chunk = allocator.allocate(1 << 20).unwrap();
        chunk.bytes_mut(1 << 20).fill(1);
        allocator.release(chunk);
        let length = (512 << 10) + 1;
        assert_eq!(Allocator::cost(length), (512 << 10) + 4096);
        let mut chunk = allocator.allocate(length).unwrap();
        let bytes = chunk.bytes_mut(1 << 20);
        assert_eq!((bytes[512 << 10], bytes[(512 << 10) + 4096]), (1, 0));
        allocator.release(chunk);
        assert_eq!(allocator.kept, (512 << 10) + 4096);
    }
}
