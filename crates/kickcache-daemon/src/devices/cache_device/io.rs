//! Reads and writes of a cache device that wait for it, outside of the loop.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::driver::device::BlockFile;
use crate::driver::memory::{Allocator, Chunk};
use crate::serve::error::ServeError;

/// Bytes from an offset on; fewer at the end of the device.
pub(super) fn read(file: &BlockFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    with_memory(length, |chunk| {
        let mut filled = 0;
        while filled < length {
            let position = offset + u64::try_from(filled).expect("usize has at most 64 bits");
            match file.file().read_at(&mut chunk.bytes_mut(length)[filled..], position) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A direct read that continues at an unaligned offset fails: the end of the file is reached.
                Err(error) if filled > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(chunk.bytes_mut(length)[..filled].to_vec())
    })
}

pub(super) fn write(file: &BlockFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    with_memory(bytes.len(), |chunk| {
        chunk.bytes_mut(bytes.len()).copy_from_slice(bytes);
        file.file().write_all_at(chunk.bytes_mut(bytes.len()), offset)
    })
}

fn with_memory<T>(length: usize, work: impl FnOnce(&mut Chunk) -> io::Result<T>) -> io::Result<T> {
    let mut allocator = Allocator::default();
    let mut chunk = allocator.allocate(length)?;
    let result = work(&mut chunk);
    allocator.release(chunk);
    result
}

pub(super) fn cache_io(path: &Path, action: &'static str, source: io::Error) -> ServeError {
    ServeError::CacheIo { path: path.into(), action, source }
}
