//! The process's allocator: the system's, with huge pages for large tables.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{Advice, madvise};

/// Allocations from this size on request huge pages.
const LARGE: usize = 4 << 20;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

struct HugePages;

fn layout_of(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(HUGE_PAGE).unwrap_or(layout) }
}

/// Asks for huge pages, except for the rest behind the last whole page.
fn advise(address: *mut u8, layout: Layout) -> *mut u8 {
    let whole = layout.size() / HUGE_PAGE * HUGE_PAGE;
    if layout.size() >= LARGE && !address.is_null() {
        // SAFETY: the range is within memory that was just allocated; the advice does not change its
        // contents, and is optional.
        let _ = unsafe { madvise(address.cast(), whole, Advice::LinuxHugepage) };
    }
    address
}

// SAFETY: all memory is the system's, allocated and freed with the same layout, which is at least as strict
// as the caller's.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise: the size is not zero.
        advise(unsafe { System.alloc(layout_of(layout)) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, as for `alloc`: the size is not zero.
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
            // SAFETY: the caller guarantees that the address was returned by this allocator with this layout.
            unsafe { self.dealloc(address, layout) };
        }
        moved
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the address was returned by this allocator with this layout, so by the system with the
        // derived one.
        unsafe { System.dealloc(address, layout_of(layout)) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reallocation_across_the_large_size_keeps_its_bytes() {
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
