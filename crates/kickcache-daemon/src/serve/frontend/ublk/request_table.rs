//! The memory in which the kernel describes the requests of a queue, one a tag.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use super::abi::IoDescription;

/// The kernel's largest depth: in the mapped area, the descriptions of each queue begin at a multiple of this
/// many descriptions.
const DEPTH_MAX: usize = 4096;

pub(super) struct RequestTable {
    base: NonNull<IoDescription>,
    count: usize,
}

// SAFETY: the mapping belongs to its owner, which may be on any thread.
unsafe impl Send for RequestTable {}

impl RequestTable {
    pub(super) fn map(device: &File, queue: u16, depth: u16) -> io::Result<RequestTable> {
        let count = usize::from(depth);
        let offset = u64::from(queue) * bytes(DEPTH_MAX) as u64;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe {
            mmap(ptr::null_mut(), bytes(count), ProtFlags::READ, MapFlags::SHARED, device, offset)?
        };
        let base = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap gave address zero"))?;
        Ok(RequestTable { base, count })
    }

    /// The description of a tag; valid once the kernel has ended the command that fetches its request.
    pub(super) fn get(&self, tag: u16) -> IoDescription {
        let index = usize::from(tag);
        assert!(index < self.count, "a tag of the queue");
        // The place is in the mapping, as the index is below the count.
        let place = self.base.as_ptr().wrapping_add(index);
        // SAFETY: the kernel writes it before the command ends that fetches it, and not after.
        unsafe { place.read_volatile() }
    }
}

impl Drop for RequestTable {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and no reference to it outlives its owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes(self.count)) };
    }
}

fn bytes(count: usize) -> usize {
    (count * size_of::<IoDescription>()).next_multiple_of(page_size())
}
