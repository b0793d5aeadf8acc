//! Operations on devices that the system does not execute.

use std::io::{IoSlice, IoSliceMut};

use kickcache_engine::request::Unmap;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::driver::backend::{Backend, Interest, WATCH_KEY_MAX};
use crate::driver::operation::{self, Operation, Work};
use crate::driver::queued_device::{QueuedDevice, QueuedRequest};

/// The key of the watch on the first device; the keys of the others are below it. Callers do not use these
/// keys.
const KEY_MAX: u64 = WATCH_KEY_MAX - 2;
/// A number above the number of devices of a driver.
const DEVICE_COUNT_MAX: u64 = 1 << 16;

pub(super) fn start(device: &mut dyn QueuedDevice, now: Instant, token: u32, operation: &mut Operation) {
    let extent = ByteExtent { start: operation.offset, length: operation.length };
    let pieces: Vec<IoSlice<'_>>;
    let request = match operation.work {
        Work::Read | Work::ReadMetadata => QueuedRequest::Read(extent),
        Work::Flush => QueuedRequest::Flush,
        Work::Write(_) | Work::WrittenZeroes { .. } => {
            let (offset, durability) = (operation.next_offset(), operation.work.durability());
            let stretches = operation.stretches_left().iter();
            pieces = stretches.map(|stretch| IoSlice::new(operation::bytes(stretch))).collect();
            QueuedRequest::Write { offset, pieces: &pieces, durability }
        }
        Work::Discard(_) => QueuedRequest::Discard(extent),
        Work::Zero { mode, durability } => {
            let unmap = if mode & libc::FALLOC_FL_PUNCH_HOLE == 0 { Unmap::Forbid } else { Unmap::Allow };
            QueuedRequest::WriteZeroes { extent, unmap, durability }
        }
    };
    device.submit(now, u64::from(token), request);
}

pub(super) fn finish(device: &mut dyn QueuedDevice, token: u32, operation: &mut Operation) {
    if operation.work != Work::Read && operation.work != Work::ReadMetadata {
        return;
    }
    let extent = ByteExtent { start: operation.offset, length: operation.length };
    let stretches = operation.stretches.iter_mut();
    let mut into: Vec<_> = stretches.map(|stretch| IoSliceMut::new(operation::bytes_mut(stretch))).collect();
    device.take_read(u64::from(token), extent, &mut into);
}

pub(super) fn watch(backend: &mut dyn Backend, slot: usize, device: &dyn QueuedDevice) {
    if let Some(wakeup) = device.wakeup() {
        let key = KEY_MAX - u64::try_from(slot).expect("u64 has at least as many bits");
        backend.watch(wakeup, key, Interest::Readable);
    }
}

pub(super) fn unwatch(backend: &mut dyn Backend, slot: usize, device: &dyn QueuedDevice) {
    if let Some(wakeup) = device.wakeup() {
        backend.unwatch(wakeup, KEY_MAX - u64::try_from(slot).expect("u64 has at least as many bits"));
    }
}

/// The slot of the device with this watch key; `None` if the key is not in the range of queued devices.
pub(super) fn slot_of(key: u64) -> Option<usize> {
    let slot = KEY_MAX.checked_sub(key).filter(|slot| *slot < DEVICE_COUNT_MAX)?;
    usize::try_from(slot).ok()
}
