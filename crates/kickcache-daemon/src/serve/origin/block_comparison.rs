//! A file or block device is compared with clean blocks of the cache, before anything is written to it.

use std::io;
use std::os::unix::fs::FileExt;

use kickcache_engine::samples::Sample;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE};

use crate::driver::checksum::checksum;
use crate::driver::device::BlockFile;
use crate::driver::memory::Allocator;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ComparedBlocks {
    /// Blocks within the device that could be read.
    pub(crate) count: usize,
    /// Byte addresses of blocks that differ.
    pub(crate) different: Vec<u64>,
}

impl ComparedBlocks {
    pub(crate) fn difference(&self) -> Option<String> {
        let first = self.different.iter().min()?;
        let different = self.different.len();
        let differ = if different == 1 { "differs" } else { "differ" };
        Some(format!("{different} of {} compared blocks {differ}, the first at byte {first}", self.count))
    }
}

/// A block that cannot be read proves no difference.
pub(crate) fn compare(file: &BlockFile, samples: &[Sample]) -> ComparedBlocks {
    let mut compared = ComparedBlocks::default();
    let mut allocator = Allocator::default();
    let Ok(mut chunk) = allocator.allocate(BLOCK_BYTES) else { return compared };
    let is_inside = |sample: &&Sample| sample.block.byte_offset() + BLOCK_SIZE <= file.size();
    for sample in samples.iter().filter(is_inside) {
        let offset = sample.block.byte_offset();
        let bytes = chunk.bytes_mut(BLOCK_BYTES);
        if read_block(file, bytes, offset).is_ok() {
            compared.count += 1;
            let is_other = checksum(bytes) != sample.checksum;
            compared.different.extend(is_other.then_some(offset));
        }
    }
    allocator.release(chunk);
    compared
}

fn read_block(file: &BlockFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    loop {
        match file.file().read_at(bytes, offset) {
            Ok(count) if count == bytes.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
