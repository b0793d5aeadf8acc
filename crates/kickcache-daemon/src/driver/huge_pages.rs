//! The process's allocator: the system's, with huge pages for large tables.
//!
//! The engine's index and slots are looked at in random order. On 4 KiB pages nearly every look also misses the
//! processor's table of pages.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{Advice, madvise};

/// Allocations from this size on ask for huge pages.
const LARGE: usize = 4 << 20;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

struct HugePages;

/// The layout that the system is asked for.
fn layout_of(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(HUGE_PAGE).unwrap_or(layout) }
}

/// Asks for huge pages, but not for the rest behind the last whole one: it would be paid for and not used.
fn advise(address: *mut u8, layout: Layout) -> *mut u8 {
    let whole = layout.size() / HUGE_PAGE * HUGE_PAGE;
    if layout.size() >= LARGE && !address.is_null() {
        // SAFETY: the range lies within memory that was just allocated; the advice changes no byte of it, and
        // without huge pages all works as well.
        let _ = unsafe { madvise(address.cast(), whole, Advice::LinuxHugepage) };
    }
    address
}

// SAFETY: all memory is the system's, asked for and given back with the same layout, which is at least as strict as
// the one that the caller named.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise: the size is not zero.
        advise(unsafe { System.alloc(layout_of(layout)) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advise(unsafe { System.alloc_zeroed(layout_of(layout)) }, layout)
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            // SAFETY: both layouts are the system's own.
            return unsafe { System.realloc(address, layout, size) };
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        // SAFETY: the caller's promise: the new size is not zero.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both places hold at least the smaller size, and do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(address, moved, layout.size().min(size)) };
            // SAFETY: the caller's promise: the address came from here with this layout.
            unsafe { self.dealloc(address, layout) };
        }
        moved
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the address came from here with this layout, so from the system with that one.
        unsafe { System.dealloc(address, layout_of(layout)) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_grows_and_shrinks_past_the_size_of_large_keeps_its_bytes() {
        let mut bytes: Vec<u8> = (0..1 << 20).map(|number: u32| number.to_le_bytes()[1]).collect();
        let before = bytes.clone();
        bytes.reserve_exact(9 << 20);
        assert_eq!(bytes.as_ptr().addr() % super::HUGE_PAGE, 0);
        assert_eq!(bytes, before);
        bytes.shrink_to_fit();
        assert_eq!(bytes, before);
    }

    #[test]
    fn large_zeroed_memory_is_zero() {
        assert!(vec![0u8; 5 << 20].iter().all(|byte| *byte == 0));
    }
}
