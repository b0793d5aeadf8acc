//! One read before a device is relied on.

use std::io;
use std::os::unix::fs::FileExt;

use super::{BlockFile, OpenError};
use crate::driver::memory::Allocator;

/// What is read: one block.
const PROBE_BYTES: usize = 4096;

impl BlockFile {
    /// Reads the first block, past the page cache where that is possible, so that a device that cannot be read is noticed
    /// before anybody depends on it.
    ///
    /// # Errors
    /// [`OpenError::Unreadable`].
    pub fn probe(&self) -> Result<(), OpenError> {
        self.read_first().map_err(|source| OpenError::Unreadable { path: self.path.clone(), source })
    }

    /// Flushes the device once.
    ///
    /// # Errors
    /// [`OpenError::Unflushable`].
    pub fn probe_flush(&self) -> Result<(), OpenError> {
        self.file.sync_data().map_err(|source| OpenError::Unflushable { path: self.path.clone(), source })
    }

    fn read_first(&self) -> io::Result<()> {
        let mut allocator = Allocator::default();
        let mut chunk = allocator.allocate(PROBE_BYTES)?;
        let length = usize::try_from(self.size).unwrap_or(PROBE_BYTES).min(PROBE_BYTES);
        let read = loop {
            match self.file.read_at(&mut chunk.bytes_mut(PROBE_BYTES)[..length], 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        allocator.release(chunk);
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
