//! An open cache device to read from: locked against daemons, never written.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kickcache_engine::format::superblock::SUPERBLOCK_SIZE;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent};

use crate::devices::cache_device::copies_by;
use crate::devices::offline::error::OfflineError;
use crate::driver::device::{OpenError, lock_below_shared, user_of};
use crate::driver::rights::access;
use crate::path_text::check_real_path;
use crate::serve::error::ServeError;

/// The longest wait for a lock of another process to end.
const LOCK_WAIT: Duration = Duration::from_millis(1_000);

const LOOK_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct OfflineDevice {
    file: File,
    path: PathBuf,
    size: u64,
    _below: Vec<File>,
}

pub(crate) struct ReadBlocks {
    bytes: Vec<u8>,
    unreadable: Vec<bool>,
}

impl OfflineDevice {
    pub(crate) fn open(path: &Path) -> Result<OfflineDevice, OfflineError> {
        let fail = |source| OfflineError::Io { path: path.into(), source };
        check_real_path(path).map_err(|error| ServeError::from(OpenError::from(error)))?;
        // The type is checked before the file is opened, as the open of a pipe would wait for its other end.
        let kind = access::metadata(path).map_err(fail)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OfflineError::Type(path.into()));
        }
        let mut file = access::open_to_read(path, 0).map_err(fail)?;
        let below = lock(&file, path)?;
        let size = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(OfflineDevice { file, path: path.into(), size, _below: below })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn superblock_copies(&self) -> Result<[Vec<u8>; 2], OfflineError> {
        let copies = copies_by(|offset| self.read_at_most(offset, SUPERBLOCK_SIZE));
        copies.map_err(|source| OfflineError::Io { path: self.path.clone(), source })
    }

    /// The first `length` bytes; fewer if the device is smaller.
    pub(crate) fn head(&self, length: usize) -> Result<Vec<u8>, OfflineError> {
        let fail = |source| OfflineError::Io { path: self.path.clone(), source };
        self.read_at_most(0, length).map_err(fail)
    }

    fn read_at_most(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        file.take(u64::try_from(length).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read(&self, extent: ByteExtent) -> io::Result<Vec<u8>> {
        let length = usize::try_from(extent.length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, extent.start)?;
        Ok(bytes)
    }

    /// Whether the device is blank: a file everywhere, a block device in its first and last MiB.
    pub(crate) fn is_blank(&self) -> io::Result<bool> {
        let is_file = self.file.metadata()?.is_file();
        let mut start = 0;
        while start < self.size {
            let length = LOOK_BYTES.min(self.size - start);
            if self.read(ByteExtent { start, length })?.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            let next = start + length;
            start = match is_file {
                true => next_data(&self.file, next).unwrap_or(self.size),
                false => next.max(self.size.saturating_sub(LOOK_BYTES)),
            };
        }
        Ok(true)
    }

    /// Reads as many of the blocks as the device gives.
    pub(crate) fn read_blocks(&self, extent: ByteExtent) -> Result<ReadBlocks, OfflineError> {
        let count = usize::try_from(extent.length / BLOCK_SIZE).unwrap_or(usize::MAX);
        if let Ok(bytes) = self.read(extent) {
            return Ok(ReadBlocks { bytes, unreadable: vec![false; count] });
        }
        let mut bytes = vec![0; count.saturating_mul(BLOCK_BYTES)];
        let starts = (extent.start..).step_by(BLOCK_BYTES);
        let unreadable = bytes
            .chunks_exact_mut(BLOCK_BYTES)
            .zip(starts)
            .map(|(block, start)| self.file.read_exact_at(block, start).is_err())
            .collect();
        Ok(ReadBlocks { bytes, unreadable })
    }
}

impl ReadBlocks {
    /// All bytes; unreadable ones are zeroes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let is_readable = self.unreadable.get(index).is_some_and(|unreadable| !unreadable);
        self.bytes.chunks_exact(BLOCK_BYTES).nth(index).filter(|_| is_readable)
    }
}

fn next_data(file: &File, offset: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => Some(data),
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some(offset),
    }
}

fn lock(file: &File, path: &Path) -> Result<Vec<File>, OfflineError> {
    let began = Instant::now();
    loop {
        let below = match file.try_lock_shared() {
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => lock_below_shared(file, path),
            Err(TryLockError::WouldBlock) => Err(OpenError::busy(path, "it holds a lock on it")),
        };
        match below {
            Ok(below) => return Ok(below),
            // The kernel releases the files of an io_uring a moment after their process ended.
            Err(_) if began.elapsed() < LOCK_WAIT => std::thread::sleep(LOCK_WAIT / 20),
            Err(_) => return Err(OfflineError::Busy { path: path.into(), by: user_of(path) }),
        }
    }
}
