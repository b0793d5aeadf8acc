//! The simulated slow disk: a mirror of two 5400 rpm drives that answers in real time.
//!
//! Its content is computed; what is written lies in memory.

use std::collections::BTreeMap;

use kickcache_daemon::driver::virtual_device::{VirtualCompletion, VirtualDevice, VirtualOperation};
use kickcache_engine::device::DeviceError;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent};
use kickcache_model::device_model::disk::parameters::DiskParameters;
use kickcache_model::device_model::mirror::Mirror;
use kickcache_model::device_model::{DeviceModel, ModelOperation, ModelRequest};

use crate::demo::content::Content;

/// What it is, for the screen.
pub(crate) const DESCRIPTION: &str = "a pair of mirrored 2.5-inch 5400 rpm drives";

type Block = Box<[u8; BLOCK_BYTES]>;

/// The simulated slow disk.
pub(crate) struct SlowDisk {
    model: Mirror,
    size: u64,
    written: BTreeMap<u64, Block>,
}

impl SlowDisk {
    /// A disk at rest; the size is a multiple of 4 KiB.
    pub(crate) fn new(size: u64, seed: u64) -> SlowDisk {
        SlowDisk { model: Mirror::new(DiskParameters::rpm_5400(), seed), size, written: BTreeMap::new() }
    }

    fn block(&self, block: u64) -> Block {
        self.written.get(&block).cloned().unwrap_or_else(|| {
            let mut bytes = Box::new([0; BLOCK_BYTES]);
            Content::SlowDisk.fill(block, bytes.as_mut_slice());
            bytes
        })
    }

    /// Stores what `change` makes of each block of an extent; it gets the bytes and their place in the extent.
    fn update(&mut self, extent: ByteExtent, mut change: impl FnMut(&mut [u8], usize)) {
        for part in parts(extent) {
            let mut bytes = self.block(part.block);
            change(&mut bytes[part.start..part.start + part.length], part.done);
            self.written.insert(part.block, bytes);
        }
    }
}

/// The part of an extent that lies in one block.
struct Part {
    block: u64,
    /// First byte in the block.
    start: usize,
    length: usize,
    /// Bytes of the extent before it.
    done: usize,
}

fn parts(extent: ByteExtent) -> impl Iterator<Item = Part> {
    let mut offset = extent.start;
    std::iter::from_fn(move || {
        let start = offset % BLOCK_SIZE;
        let length = (BLOCK_SIZE - start).min(extent.end() - offset);
        let part = Part {
            block: offset / BLOCK_SIZE,
            start: memory(start),
            length: memory(length),
            done: memory(offset - extent.start),
        };
        offset += length;
        (length > 0).then_some(part)
    })
}

fn memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the demo's disk fits into memory")
}

fn extent(offset: u64, bytes: &[u8]) -> ByteExtent {
    ByteExtent { start: offset, length: u64::try_from(bytes.len()).expect("fits") }
}

impl VirtualDevice for SlowDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn identity(&self) -> String {
        "simulated:disk".into()
    }

    fn submit(&mut self, now: Instant, token: u64, operation: VirtualOperation) {
        let whole = ByteExtent { start: 0, length: 0 };
        let (operation, extent) = match operation {
            VirtualOperation::Read(extent) => (ModelOperation::Read, extent),
            VirtualOperation::Write(extent) | VirtualOperation::Zero(extent) => {
                (ModelOperation::Write, extent)
            }
            VirtualOperation::Flush => (ModelOperation::Flush, whole),
        };
        let ByteExtent { start: offset, length } = extent;
        self.model.submit(now, ModelRequest { operation, offset, length, token });
    }

    fn poll(&mut self, now: Instant) -> Option<VirtualCompletion> {
        self.model.poll(now).map(|token| VirtualCompletion { token, result: Ok(()) })
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.model.next_event()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        for part in parts(extent(offset, into)) {
            let bytes = self.block(part.block);
            into[part.done..part.done + part.length]
                .copy_from_slice(&bytes[part.start..part.start + part.length]);
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.update(extent(offset, from), |bytes, done| {
            bytes.copy_from_slice(&from[done..done + bytes.len()]);
        });
        Ok(())
    }

    fn zero(&mut self, extent: ByteExtent) -> Result<(), DeviceError> {
        self.update(extent, |bytes, _| bytes.fill(0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_amid_what_was_there() {
        let mut disk = SlowDisk::new(1 << 20, 1);
        disk.write(4096 + 512, &[7; 8192]).unwrap();
        disk.zero(ByteExtent { start: 8192, length: 512 }).unwrap();
        let (mut expected, mut found) = (vec![0; 16384], vec![0; 16384]);
        Content::SlowDisk.fill(0, &mut expected);
        expected[4096 + 512..12288 + 512].fill(7);
        expected[8192..8192 + 512].fill(0);
        disk.read(0, &mut found).unwrap();
        assert!(found == expected);
        disk.read(4096, &mut found[..1024]).unwrap();
        assert!(found[..1024] == expected[4096..4096 + 1024]);
    }

    #[test]
    fn a_read_takes_as_long_as_a_disk() {
        let mut disk = SlowDisk::new(256 << 20, 1);
        disk.submit(Instant::ZERO, 5, VirtualOperation::Read(ByteExtent { start: 100 << 20, length: 4096 }));
        let wakeup = disk.next_wakeup().unwrap();
        assert!((500_000..30_000_000).contains(&wakeup.as_nanos()), "{wakeup:?}");
        assert_eq!(disk.poll(Instant::from_nanos(wakeup.as_nanos() - 1)), None);
        assert_eq!(disk.poll(wakeup).map(|end| end.token), Some(5));
    }
}
