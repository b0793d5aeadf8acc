//! One read, and one flush, before a device is used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{BlockFile, OpenError};
use crate::driver::memory::Allocator;

const PROBE_BYTES: usize = 4096;

impl BlockFile {
    /// Reads the first block of the device.
    ///
    /// # Errors
    /// [`OpenError::Unreadable`].
    pub fn probe(&self) -> Result<(), OpenError> {
        let read = read_first(&self.file).and_then(|count| match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        });
        read.map_err(|source| OpenError::Unreadable { path: self.path.clone(), source })
    }

    /// Flushes the device once.
    ///
    /// # Errors
    /// [`OpenError::Unflushable`].
    pub fn probe_flush(&self) -> Result<(), OpenError> {
        self.file.sync_data().map_err(|source| OpenError::Unflushable { path: self.path.clone(), source })
    }
}

/// Reads the first block, or the existing part; returns the number of bytes read.
pub(super) fn read_first(file: &File) -> io::Result<usize> {
    let mut allocator = Allocator::default();
    let mut chunk = allocator.allocate(PROBE_BYTES)?;
    let read = loop {
        match file.read_at(chunk.bytes_mut(PROBE_BYTES), 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    allocator.release(chunk);
    read
}
