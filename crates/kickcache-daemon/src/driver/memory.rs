//! Page-aligned memory for direct I/O: whole mappings, and an allocator of power-of-two sizes on top of them.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of everything handed out here, and the smallest size.
pub(crate) const PAGE: usize = 4096;
/// Sizes up to this one are cut from shared mappings and stay with the allocator.
const CARVED_MAX: usize = 128 << 10;
/// Bytes of a mapping that small sizes are cut from.
const CARVE_MAPPING: usize = 1 << 20;
/// Bytes of larger sizes that are kept for reuse, in all.
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

    /// The address of a byte of the mapping.
    pub(crate) fn address(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= self.length && length <= self.length - offset, "memory outside of its mapping");
        self.base().wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nothing refers to it after its owner is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// Aligned memory handed out by an [`Allocator`]; must be given back to it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Chunk {
    base: NonNull<u8>,
    class: u8,
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

    /// The stretch's bytes from the start.
    pub(crate) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.length());
        // SAFETY: the stretch has that many bytes, mmap zeroed them once, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), length) }
    }
}

/// Hands out page-aligned memory in powers of two from 4 KiB to 64 MiB.
#[derive(Default)]
pub(crate) struct Allocator {
    free: [Vec<NonNull<u8>>; CLASS_COUNT],
    mappings: Vec<Mapping>,
    kept: usize,
}

// SAFETY: the free lists point into memory that belongs to the allocator alone.
unsafe impl Send for Allocator {}

impl Allocator {
    /// Memory of at least `length` bytes.
    pub(crate) fn allocate(&mut self, length: usize) -> io::Result<Chunk> {
        let class = length.div_ceil(PAGE).next_power_of_two().trailing_zeros();
        let class = u8::try_from(class).expect("a logarithm is small");
        if usize::from(class) >= CLASS_COUNT {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if self.free[usize::from(class)].is_empty() {
            self.map(class)?;
        } else if PAGE << class > CARVED_MAX {
            self.kept -= PAGE << class;
        }
        let base = self.free[usize::from(class)].pop().expect("the list was filled above");
        Ok(Chunk { base, class })
    }

    /// Takes memory back.
    #[expect(clippy::needless_pass_by_value, reason = "who gives memory back must not keep it")]
    pub(crate) fn release(&mut self, chunk: Chunk) {
        let length = chunk.length();
        if length <= CARVED_MAX {
            return self.free[usize::from(chunk.class)].push(chunk.base);
        }
        if self.kept + length <= KEPT_MAX {
            self.kept += length;
            return self.free[usize::from(chunk.class)].push(chunk.base);
        }
        drop(Mapping { base: chunk.base, length });
    }

    /// Gives large stretches that are kept for reuse back to the system.
    pub(crate) fn trim(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            let length = PAGE << class;
            if length > CARVED_MAX {
                list.drain(..).for_each(|base| drop(Mapping { base, length }));
            }
        }
        self.kept = 0;
    }

    fn map(&mut self, class: u8) -> io::Result<()> {
        let length = PAGE << class;
        if length > CARVED_MAX {
            let mapping = std::mem::ManuallyDrop::new(Mapping::new(length)?);
            self.free[usize::from(class)].push(mapping.base);
            return Ok(());
        }
        let mapping = Mapping::new(CARVE_MAPPING)?;
        for offset in (0..CARVE_MAPPING).step_by(length).rev() {
            let address = mapping.address(offset, length);
            self.free[usize::from(class)].push(NonNull::new(address).expect("inside of a mapping"));
        }
        self.mappings.push(mapping);
        Ok(())
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.trim();
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
    fn what_is_kept_is_given_back() {
        let mut allocator = Allocator::default();
        let (small, large) = (allocator.allocate(4096).unwrap(), allocator.allocate(1 << 20).unwrap());
        allocator.release(small);
        allocator.release(large);
        assert_eq!(allocator.kept, 1 << 20);
        allocator.trim();
        assert_eq!(allocator.kept, 0);
        let mut again = allocator.allocate(1 << 20).unwrap();
        assert_eq!(again.bytes_mut(1 << 20)[4096], 0, "a new mapping");
        allocator.release(again);
    }
}
