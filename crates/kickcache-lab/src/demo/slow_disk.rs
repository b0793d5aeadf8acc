//! The simulated slow disk: a mirror of two 5400 rpm drives that answers in real time.
//!
//! Its content is computed; written blocks are kept in memory.

use std::collections::BTreeMap;
use std::io::IoSliceMut;

use kickcache_daemon::driver::queued_device::{QueuedDevice, QueuedEnd, QueuedRequest};
use kickcache_daemon::plan::origin_source::outside::OutsideOrigin;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent};
use kickcache_model::device_model::disk::parameters::DiskParameters;
use kickcache_model::device_model::mirror::Mirror;
use kickcache_model::device_model::{DeviceModel, ModelOperation, ModelRequest};

use crate::demo::content::Content;

pub(crate) const DESCRIPTION: &str = "a pair of mirrored 2.5-inch 5400 rpm drives";

type Block = Box<[u8; BLOCK_BYTES]>;

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

    fn read(&self, offset: u64, into: &mut [u8]) {
        for part in parts(extent(offset, into)) {
            let bytes = self.block(part.block);
            into[part.done..part.done + part.length]
                .copy_from_slice(&bytes[part.start..part.start + part.length]);
        }
    }

    fn write(&mut self, offset: u64, from: &[u8]) {
        self.update(extent(offset, from), |bytes, done| {
            bytes.copy_from_slice(&from[done..done + bytes.len()]);
        });
    }

    /// Stores the result of `change` for each block of an extent; `change` gets the bytes and their place in
    /// the extent.
    fn update(&mut self, extent: ByteExtent, mut change: impl FnMut(&mut [u8], usize)) {
        for part in parts(extent) {
            let mut bytes = self.block(part.block);
            change(&mut bytes[part.start..part.start + part.length], part.done);
            self.written.insert(part.block, bytes);
        }
    }
}

struct Part {
    block: u64,
    /// Bytes of the block in front of this part.
    start: usize,
    length: usize,
    /// Bytes of the extent in front of this part.
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

impl OutsideOrigin for SlowDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn identity(&self) -> String {
        "simulated:disk".into()
    }
}

impl QueuedDevice for SlowDisk {
    fn submit(&mut self, now: Instant, token: u64, request: QueuedRequest<'_>) {
        let (operation, extent) = match request {
            QueuedRequest::Read(extent) => (ModelOperation::Read, extent),
            QueuedRequest::Write { offset, pieces, .. } => {
                let mut end = offset;
                for piece in pieces {
                    self.write(end, piece);
                    end = extent(end, piece).end();
                }
                (ModelOperation::Write, ByteExtent { start: offset, length: end - offset })
            }
            QueuedRequest::Discard(extent) | QueuedRequest::WriteZeroes { extent, .. } => {
                self.update(extent, |bytes, _| bytes.fill(0));
                (ModelOperation::Write, extent)
            }
            QueuedRequest::Flush => (ModelOperation::Flush, ByteExtent { start: 0, length: 0 }),
        };
        let ByteExtent { start: offset, length } = extent;
        self.model.submit(now, ModelRequest { operation, offset, length, token });
    }

    fn poll(&mut self, now: Instant) -> Option<QueuedEnd> {
        self.model.poll(now).map(|token| QueuedEnd { token, result: Ok(()) })
    }

    fn take_read(&mut self, _token: u64, whole: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        let mut offset = whole.start;
        for piece in into {
            self.read(offset, piece);
            offset = extent(offset, piece).end();
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.model.next_event()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use kickcache_engine::request::Durability;

    use super::*;

    #[test]
    fn written_blocks_are_read_back_among_computed_ones() {
        let mut disk = SlowDisk::new(1 << 20, 1);
        let pieces = [IoSlice::new(&[7; 512]), IoSlice::new(&[7; 7680])];
        let write =
            QueuedRequest::Write { offset: 4096 + 512, pieces: &pieces, durability: Durability::Volatile };
        disk.submit(Instant::ZERO, 1, write);
        disk.submit(Instant::ZERO, 2, QueuedRequest::Discard(ByteExtent { start: 8192, length: 512 }));
        let (mut expected, mut found) = (vec![0; 16384], vec![0; 16384]);
        Content::SlowDisk.fill(0, &mut expected);
        expected[4096 + 512..12288 + 512].fill(7);
        expected[8192..8192 + 512].fill(0);
        let (first, second) = found.split_at_mut(1024);
        let whole = ByteExtent { start: 0, length: 16384 };
        disk.take_read(3, whole, &mut [IoSliceMut::new(first), IoSliceMut::new(second)]);
        assert!(found == expected);
        disk.read(4096, &mut found[..1024]);
        assert!(found[..1024] == expected[4096..4096 + 1024]);
    }

    #[test]
    fn a_read_takes_as_long_as_a_disk() {
        let mut disk = SlowDisk::new(256 << 20, 1);
        disk.submit(Instant::ZERO, 5, QueuedRequest::Read(ByteExtent { start: 100 << 20, length: 4096 }));
        let wakeup = disk.next_wakeup().unwrap();
        assert!((500_000..30_000_000).contains(&wakeup.as_nanos()), "{wakeup:?}");
        assert_eq!(disk.poll(Instant::from_nanos(wakeup.as_nanos() - 1)), None);
        assert_eq!(disk.poll(wakeup).map(|end| end.token), Some(5));
    }
}
