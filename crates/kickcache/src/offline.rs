//! A cache device that nobody serves, read without changing it: its superblock, and its books as the engine recovers
//! them.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::device::{Completion, Data, DeviceError, DeviceOperation, Submission};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::stats::Status;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent, VolumeId};

/// How long a lock may take to go away.
const LOCK_WAIT: Duration = Duration::from_millis(1_000);

/// Why a cache device cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The system refused.
    #[error("cannot read {}", .path.display())]
    Io {
        /// The device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither file nor block device.
    #[error("{} is neither a regular file nor a block device; give a cache device", .0.display())]
    Type(PathBuf),
    /// A daemon has it.
    #[error("{} is in use; if a daemon serves it, ask that one: kickcache status", .0.display())]
    Busy(PathBuf),
    /// The engine cannot use it.
    #[error("{}: {source}", .path.display())]
    Content {
        /// The device.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// Recovery waits for something that never comes.
    #[error("{}: recovery of its log does not come to an end; please report this", .0.display())]
    Stuck(PathBuf),
}

/// What is on a cache device.
#[derive(Debug)]
pub struct Contents {
    /// Bytes of the device.
    pub device_size: u64,
    /// Its superblock.
    pub superblock: Superblock,
    /// The state that a daemon would start with.
    pub status: Status,
    /// The dirty extents of each volume, ascending.
    pub dirty: Vec<(VolumeId, Vec<ByteExtent>)>,
}

/// Reads a cache device.
///
/// # Errors
/// If it cannot be read, is in use, or is no cache device.
pub fn read(path: &Path) -> Result<Contents, OfflineError> {
    let fail = |source| OfflineError::Io { path: path.into(), source };
    let mut file = open(path)?;
    let device_size = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let copies = SUPERBLOCK_OFFSETS.map(|offset| read_at_most(&file, offset, SUPERBLOCK_SIZE));
    let [first, second] = copies;
    let (first, second) = (first.map_err(fail)?, second.map_err(fail)?);
    let refuse = |source| OfflineError::Content { path: path.into(), source };
    let superblock = Superblock::decode([&first, &second], device_size).map_err(refuse)?;
    let engine = recover(path, &file, &superblock)?;
    let volumes = superblock.volumes.iter().map(|volume| volume.id);
    let dirty = volumes.map(|id| (id, extents(&engine.dirty_blocks(id)))).collect();
    Ok(Contents { device_size, superblock, status: engine.status(), dirty })
}

fn open(path: &Path) -> Result<File, OfflineError> {
    let fail = |source| OfflineError::Io { path: path.into(), source };
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let kind = std::fs::metadata(path).map_err(fail)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(OfflineError::Type(path.into()));
    }
    let file = File::open(path).map_err(fail)?;
    let began = std::time::Instant::now();
    loop {
        match file.try_lock_shared() {
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            // The kernel lets go of the files of an io_uring a moment after their process ended.
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_WAIT / 20);
            }
            Err(TryLockError::WouldBlock) => return Err(OfflineError::Busy(path.into())),
        }
    }
}

/// Up to `length` bytes at `offset`; fewer at the end of the device.
fn read_at_most(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    file.take(u64::try_from(length).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Lets an engine recover; what it wants to write is acknowledged and dropped.
fn recover(path: &Path, file: &File, superblock: &Superblock) -> Result<Engine, OfflineError> {
    let refuse = |source| OfflineError::Content { path: path.into(), source };
    let volumes: Vec<_> = superblock.volumes.iter().map(|volume| VolumeSettings::new(volume.id)).collect();
    let opened = Engine::open(Instant::ZERO, superblock, EngineSettings::default(), &volumes);
    let mut engine = opened.map_err(refuse)?;
    loop {
        match engine.phase() {
            Phase::Recovering => {}
            Phase::Running => return Ok(engine),
            Phase::Failed(source) => return Err(refuse(source)),
            Phase::Stopping | Phase::Stopped => return Err(OfflineError::Stuck(path.into())),
        }
        match (engine.poll_submission(), engine.poll_timeout()) {
            (Some(submission), _) => perform(&mut engine, file, &submission),
            (None, Some(due)) => engine.handle_timeout(due),
            (None, None) => return Err(OfflineError::Stuck(path.into())),
        }
    }
}

fn perform(engine: &mut Engine, file: &File, submission: &Submission) {
    let id = submission.id;
    let mut complete = |result| engine.handle_completion(Instant::ZERO, Completion { id, result });
    match &submission.operation {
        DeviceOperation::ReadMetadata { extent } => match read_extent(file, *extent) {
            Ok(bytes) => complete(Ok(Data { bytes: &bytes, ..Data::default() })),
            Err(_) => complete(Err(DeviceError::Io)),
        },
        DeviceOperation::Read { .. } | DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => {
            complete(Err(DeviceError::Unsupported));
        }
        DeviceOperation::Write { .. }
        | DeviceOperation::WriteMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::WriteZeroes { .. } => complete(Ok(Data::default())),
    }
}

fn read_extent(file: &File, extent: ByteExtent) -> io::Result<Vec<u8>> {
    let length = usize::try_from(extent.length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, extent.start)?;
    Ok(bytes)
}

/// Joins neighbouring blocks.
fn extents(blocks: &[BlockIndex]) -> Vec<ByteExtent> {
    let mut extents: Vec<ByteExtent> = Vec::new();
    for block in blocks {
        let start = block.byte_offset();
        match extents.last_mut().filter(|last| last.end() == start) {
            Some(last) => last.length += BLOCK_SIZE,
            None => extents.push(ByteExtent { start, length: BLOCK_SIZE }),
        }
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(path: &Path) -> String {
        format!("{:#}", anyhow::Error::from(read(path).unwrap_err()))
            .replace(&path.display().to_string(), "PATH")
    }

    #[test]
    fn neighbours_are_joined() {
        let blocks = [1, 2, 3, 7, 9, 10].map(BlockIndex::new);
        let found: Vec<_> =
            extents(&blocks).iter().map(|extent| (extent.start / 4096, extent.length / 4096)).collect();
        assert_eq!(found, [(1, 3), (7, 1), (9, 2)]);
    }

    #[test]
    fn what_is_no_cache_device_is_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        assert_eq!(sentence(&path), "cannot read PATH: No such file or directory (os error 2)");
        assert_eq!(
            sentence(folder.path()),
            "PATH is neither a regular file nor a block device; give a cache device"
        );
        for bytes in [&b""[..], b"x", &[0; 511], &[0xff; 4095], &[0; 2 << 20]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(
                sentence(&path).starts_with("PATH: this is not a kickcache cache device"),
                "{}",
                sentence(&path)
            );
        }
    }

    #[test]
    fn a_device_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        assert_eq!(sentence(&path), "PATH is in use; if a daemon serves it, ask that one: kickcache status");
    }
}
