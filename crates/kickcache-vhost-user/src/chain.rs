//! Descriptor chains: from a head to the stretches of guest memory that it names.
//!
//! The crate walks chains itself: a head that was in flight when the daemon died is walked again, and a chain that a
//! fault cuts short must not count as complete.

use virtio_bindings::bindings::virtio_ring::VRING_DESC_F_INDIRECT;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, ByteValued, GuestAddress, GuestMemoryMmap};

use super::features::DESCRIPTORS_MAX;
use super::memory::{read, write};

const DESCRIPTOR_BYTES: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) address: GuestAddress,
    pub(super) length: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Chain {
    pub(super) readable: Vec<Segment>,
    pub(super) writable: Vec<Segment>,
}

/// A descriptor table: the table of a queue, or of indirect descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub(super) address: GuestAddress,
    pub(super) size: u32,
}

/// The reason why a queue is stopped; if memory is missing, the whole device is disconnected instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum QueueFault {
    #[error("a chain names a descriptor outside of its table")]
    OutsideTable,
    #[error("a table of descriptors is outside of guest memory")]
    OutsideMemory,
    #[error("a chain has more descriptors than its table, or than {DESCRIPTORS_MAX}: it is a loop")]
    Loop,
    #[error("a table of indirect descriptors contains another one, or is chained with other descriptors")]
    NestedTable,
    #[error("a table of indirect descriptors has an impossible length")]
    TableLength,
    #[error("a chain has something to read behind something to write")]
    ReadBehindWrite,
    #[error("a chain names more bytes than 32 bits can count")]
    TooLong,
    #[error("a chain has no place in guest memory for its status")]
    NoStatus,
    #[error("a head was submitted that is in flight already, or that no table has")]
    Head,
    #[error("the ring cannot be read, written, or is ahead of itself")]
    Ring,
    #[error("the memory was cut short while it was shared")]
    MemoryLost,
}

/// Follows a chain from its head.
pub(super) fn walk(memory: &GuestMemoryMmap, table: Table, head: u16) -> Result<Chain, QueueFault> {
    let (mut table, mut index, mut indirect) = (table, head, false);
    let (mut chain, mut count, mut bytes) = (Chain::default(), 0_u32, 0_u32);
    loop {
        let descriptor = look_up(memory, table, index)?;
        if u32::from(descriptor.flags()) & VRING_DESC_F_INDIRECT != 0 {
            if indirect || descriptor.has_next() {
                return Err(QueueFault::NestedTable);
            }
            (table, index, indirect, count) = (inner_table(descriptor)?, 0, true, 0);
            continue;
        }
        count += 1;
        bytes = bytes.checked_add(descriptor.len()).ok_or(QueueFault::TooLong)?;
        chain.push(descriptor)?;
        if !descriptor.has_next() {
            return Ok(chain);
        }
        if count >= table.size || chain.readable.len() + chain.writable.len() >= DESCRIPTORS_MAX {
            return Err(QueueFault::Loop);
        }
        index = descriptor.next();
    }
}

fn look_up(memory: &GuestMemoryMmap, table: Table, index: u16) -> Result<Descriptor, QueueFault> {
    if u32::from(index) >= table.size {
        return Err(QueueFault::OutsideTable);
    }
    let offset = u64::from(index) * u64::from(DESCRIPTOR_BYTES);
    let address = table.address.checked_add(offset).ok_or(QueueFault::OutsideMemory)?;
    let mut descriptor = Descriptor::default();
    read(memory, address, descriptor.as_mut_slice()).ok_or(QueueFault::OutsideMemory)?;
    Ok(descriptor)
}

fn inner_table(descriptor: Descriptor) -> Result<Table, QueueFault> {
    let length = descriptor.len();
    if length == 0 || !length.is_multiple_of(DESCRIPTOR_BYTES) {
        return Err(QueueFault::TableLength);
    }
    Ok(Table { address: descriptor.addr(), size: length / DESCRIPTOR_BYTES })
}

impl Chain {
    fn push(&mut self, descriptor: Descriptor) -> Result<(), QueueFault> {
        let segment = Segment { address: descriptor.addr(), length: descriptor.len() };
        if descriptor.is_write_only() {
            self.writable.push(segment);
            return Ok(());
        }
        if !self.writable.is_empty() {
            return Err(QueueFault::ReadBehindWrite);
        }
        self.readable.push(segment);
        Ok(())
    }
}

pub(super) fn length(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.length)).sum()
}

/// Copies from guest memory; `None` if a segment is not in guest memory, or the buffer is too short. The buffer must be
/// as long as the segments.
pub(super) fn copy_in(memory: &GuestMemoryMmap, segments: &[Segment], mut buffer: &mut [u8]) -> Option<()> {
    for segment in segments {
        let (part, rest) = buffer.split_at_mut_checked(usize::try_from(segment.length).ok()?)?;
        read(memory, segment.address, part)?;
        buffer = rest;
    }
    Some(())
}

/// Copies to guest memory, as [`copy_in`].
pub(super) fn copy_out(memory: &GuestMemoryMmap, segments: &[Segment], mut buffer: &[u8]) -> Option<()> {
    for segment in segments {
        let (part, rest) = buffer.split_at_checked(usize::try_from(segment.length).ok()?)?;
        write(memory, segment.address, part)?;
        buffer = rest;
    }
    Some(())
}

/// Removes bytes from the front of some segments, and copies them; `None` if the segments are too short or
/// not in guest memory; some bytes may be removed even then.
pub(super) fn take_front<const N: usize>(
    memory: &GuestMemoryMmap,
    segments: &mut Vec<Segment>,
) -> Option<[u8; N]> {
    let (mut bytes, mut filled, mut used) = ([0; N], 0, 0);
    for segment in segments.iter_mut() {
        let count = (N - filled).min(usize::try_from(segment.length).ok()?);
        read(memory, segment.address, &mut bytes[filled..filled + count])?;
        filled += count;
        let taken = u32::try_from(count).ok()?;
        *segment = Segment {
            address: segment.address.unchecked_add(u64::from(taken)),
            length: segment.length - taken,
        };
        if segment.length > 0 {
            break;
        }
        used += 1;
    }
    segments.drain(..used);
    (filled == N).then_some(bytes)
}

/// Removes the last byte of some segments and returns its address; `None` if the segments have no byte, or the address
/// overflows.
pub(super) fn take_last_byte(segments: &mut Vec<Segment>) -> Option<GuestAddress> {
    while let Some(last) = segments.last_mut() {
        if let Some(shorter) = last.length.checked_sub(1) {
            last.length = shorter;
            let address = last.address.checked_add(u64::from(shorter));
            if shorter == 0 {
                segments.pop();
            }
            return address;
        }
        segments.pop();
    }
    None
}
