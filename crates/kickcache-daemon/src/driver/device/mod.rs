//! Opens files and block devices as cache devices and origins.

pub mod answers;
pub mod device_stack;
mod error;
pub(crate) mod file_system;
pub mod identity;
mod kind;
mod probe;
mod punch;
mod storage;
pub mod sysfs;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kickcache_engine::units::SECTOR_SIZE;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

pub use self::error::OpenError;
use self::error::open_error;
use self::identity::Identified;
pub use self::kind::{AccessMode, Direct, Emptiness, Flush, Kind, ZeroSpeed};
use self::punch::can_punch;
use self::storage::Storage;
pub use self::storage::check_distinct;
pub(crate) use self::storage::{lock_below_shared, path_below};
use crate::driver::ioctl;
use crate::driver::minimum_block::MinimumBlock;
use crate::driver::rights::access;
use crate::opener::Opener;
use crate::own_user::own_user;
use crate::path_text::path_text;

/// How long a device may be busy before it is refused.
const BUSY_PATIENCE: Duration = Duration::from_millis(5000);
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// An open device, locked if its file system has locks.
#[derive(Debug)]
pub struct BlockFile {
    file: File,
    named: PathBuf,
    path: PathBuf,
    kind: Kind,
    access: AccessMode,
    size: u64,
    exact_size: u64,
    direct: Direct,
    zeroes: ZeroSpeed,
    minimum_block: MinimumBlock,
    keeps_dsync: bool,
    is_remote: bool,
    flush: Flush,
    storage: Option<Storage>,
    /// The files and devices below, locked if their file systems have locks.
    _below: Vec<File>,
}

impl BlockFile {
    /// Opens and locks a device.
    ///
    /// # Errors
    /// [`OpenError`], as its sentences explain.
    pub fn open(path: &Path, access: AccessMode, emptiness: Emptiness) -> Result<BlockFile, OpenError> {
        let metadata = access::metadata(path).map_err(|source| open_error(path, source))?;
        let kind = kind(path, &metadata)?;
        let canonical = access::canonical(path).unwrap_or_else(|_| path.into());
        path_text(canonical.as_os_str())?;
        let OpenFile { file, direct, below } = open_patiently(path, access, kind)?;
        if access == AccessMode::ReadWrite && kind == Kind::Block && ioctl::is_protected(&file) {
            return Err(OpenError::Protected { path: path.into() });
        }
        let bytes = size(&file, kind).map_err(|source| open_error(path, source))?;
        if bytes < SECTOR_SIZE && emptiness == Emptiness::Refused {
            return Err(OpenError::Empty { path: path.into(), found: bytes });
        }
        let (named, path) = (path.into(), canonical);
        let zeroes = zero_speed(&file, &path, kind, access);
        let keeps_dsync = kind == Kind::Block || file_system::keeps_dsync(&file);
        let is_remote = kind == Kind::File && file_system::is_remote(&file);
        let size = bytes / SECTOR_SIZE * SECTOR_SIZE;
        let storage = file.metadata().ok().map(|metadata| Storage::of(&metadata));
        Ok(BlockFile {
            minimum_block: ioctl::minimum_block(&file, kind),
            storage,
            _below: below,
            file,
            named,
            path,
            kind,
            access,
            size,
            exact_size: bytes,
            direct,
            zeroes,
            keeps_dsync,
            is_remote,
            flush: Flush::Done,
        })
    }

    /// Bytes of the device when it was opened, rounded down to whole sectors of 512 bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes when it was opened, not rounded.
    pub fn exact_size(&self) -> u64 {
        self.exact_size
    }

    /// [`BlockFile::size`], read again.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn size_today(&self) -> io::Result<u64> {
        Ok(size(&self.file, self.kind)? / SECTOR_SIZE * SECTOR_SIZE)
    }

    /// The path without links, or the path as the user gives it if its links cannot be resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn access(&self) -> AccessMode {
        self.access
    }

    pub fn direct(&self) -> Direct {
        self.direct
    }

    pub fn zeroes(&self) -> ZeroSpeed {
        self.zeroes
    }

    pub(crate) fn minimum_block(&self) -> MinimumBlock {
        self.minimum_block
    }

    /// Whether an asynchronous direct write with `RWF_DSYNC` counts as durable when it ends.
    pub(crate) fn keeps_dsync(&self) -> bool {
        self.keeps_dsync
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(crate) fn flush(&self) -> Flush {
        self.flush
    }

    /// Counts all writes to the device as durable from now on.
    pub fn assume_flushed(&mut self) {
        self.flush = Flush::Assumed;
    }

    /// Reads and writes through it must be aligned as direct I/O requires; 4096 bytes suffice.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path under `/proc` of a regular file without a name. The kernel's attributes are sufficient: a
    /// file system that does not answer must not stop the daemon.
    pub fn unlinked_at(&self) -> Option<String> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(&self.file, c"", flags, StatxFlags::TYPE | StatxFlags::NLINK).ok()?;
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        let is_unlinked = is_file && found.stx_nlink == 0;
        is_unlinked.then(|| format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    pub fn identified(&self) -> Identified {
        let number = self.file.metadata().map_or(0, |metadata| metadata.rdev());
        identified(&self.named, &self.path, self.kind, number)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// The identity of [`BlockFile::identified`], of a device that is not opened.
///
/// # Errors
/// [`OpenError`] if the device cannot be examined, or has an unsuitable type or path.
pub fn identity_of(path: &Path) -> Result<String, OpenError> {
    let found = |source| open_error(path, source);
    let metadata = access::metadata(path).map_err(found)?;
    let kind = kind(path, &metadata)?;
    let canonical = access::canonical(path).map_err(found)?;
    path_text(canonical.as_os_str())?;
    Ok(identified(path, &canonical, kind, metadata.rdev()).identity)
}

fn identified(named: &Path, path: &Path, kind: Kind, number: u64) -> Identified {
    match kind {
        Kind::File => identity::of_file(path),
        Kind::Block => identity::of_block_device(named, path, number),
    }
}

/// Refuses two open devices that are the same by [`same_device`].
///
/// # Errors
/// [`OpenError::Same`].
pub fn check_different(first: &BlockFile, second: &BlockFile) -> Result<(), OpenError> {
    if !same_device(first, second) {
        return Ok(());
    }
    Err(OpenError::Same { first: first.path.clone(), second: second.path.clone() })
}

/// Whether two open devices are found to have bytes in common; a partition of another disk counts as a device
/// of its own.
pub fn same_device(first: &BlockFile, second: &BlockFile) -> bool {
    first.storage.as_ref().zip(second.storage.as_ref()).is_some_and(|(first, second)| first.overlaps(second))
}

impl Drop for BlockFile {
    /// Releases the lock now: a worker of an io_uring may be the last to close the file, and sleeps for 5 s
    /// first.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

fn kind(path: &Path, metadata: &std::fs::Metadata) -> Result<Kind, OpenError> {
    let kind = metadata.file_type();
    let found = match () {
        () if kind.is_file() => return Ok(Kind::File),
        () if kind.is_block_device() => return Ok(Kind::Block),
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "pipe",
        () if kind.is_char_device() => "character device",
        () if kind.is_socket() => "socket",
        () => "file of an unknown type",
    };
    Err(OpenError::Type { path: path.into(), found })
}

struct OpenFile {
    file: File,
    direct: Direct,
    below: Vec<File>,
}

impl OpenFile {
    const fn new(file: File, direct: Direct) -> OpenFile {
        OpenFile { file, direct, below: Vec::new() }
    }
}

/// A busy device is tried again for a while: the kernel closes the files of an io_uring shortly after the
/// process that used it has ended.
fn open_patiently(path: &Path, access: AccessMode, kind: Kind) -> Result<OpenFile, OpenError> {
    let until = Instant::now() + BUSY_PATIENCE;
    loop {
        let opened = open_direct(path, access, kind).and_then(|opened| {
            lock(&opened.file, path, access)?;
            let below = storage::lock_below(&opened.file, path, access)?;
            Ok(OpenFile { below, ..opened })
        });
        match opened {
            Err(OpenError::Busy { .. }) if Instant::now() < until => std::thread::sleep(BUSY_PAUSE),
            Err(OpenError::Busy { path: named, detail, .. }) => {
                return Err(OpenError::Busy { path: named, by: user_of(path), detail });
            }
            opened => return opened,
        }
    }
}

/// Another process that has the device, or a file below it, open.
pub(crate) fn user_of(path: &Path) -> Option<Opener> {
    let below = access::metadata(path).map(|metadata| storage::paths_below(&metadata)).unwrap_or_default();
    let paths: Vec<&Path> = std::iter::once(path).chain(below.iter().map(PathBuf::as_path)).collect();
    Opener::of_any(&paths)
}

fn open_direct(path: &Path, access: AccessMode, kind: Kind) -> Result<OpenFile, OpenError> {
    let exclusive = if kind == Kind::Block && access == AccessMode::ReadWrite { libc::O_EXCL } else { 0 };
    match open_with(path, access, libc::O_DIRECT | exclusive) {
        Ok(file) if ioctl::direct_alignment(&file, kind) <= SECTOR_SIZE => {
            return Ok(OpenFile::new(file, Direct::Yes));
        }
        Ok(_) => tracing::warn!(
            event = "page_cache_used",
            "{} has sectors of more than 512 bytes: it is used through the page cache",
            path.display()
        ),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => tracing::warn!(
            event = "page_cache_used",
            "the file system of {} does not take O_DIRECT: it is used through the page cache",
            path.display()
        ),
        Err(error) => return Err(refused(path, access, error)),
    }
    let file = open_with(path, access, exclusive).map_err(|error| refused(path, access, error))?;
    Ok(OpenFile::new(file, Direct::No))
}

fn open_with(path: &Path, access: AccessMode, flags: i32) -> io::Result<File> {
    match access {
        AccessMode::ReadWrite => access::open_to_write(path, flags),
        AccessMode::ReadOnly => access::open_to_read(path, flags),
    }
}

fn refused(path: &Path, access: AccessMode, source: io::Error) -> OpenError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => OpenError::busy(path, "it is mounted or opened exclusively"),
        Some(libc::EACCES | libc::EPERM | libc::EROFS) if access == AccessMode::ReadWrite => {
            OpenError::ReadOnly { path: path.into(), user: own_user(), source }
        }
        _ => open_error(path, source),
    }
}

fn lock(file: &File, path: &Path, access: AccessMode) -> Result<(), OpenError> {
    let lock = match access {
        AccessMode::ReadWrite => file.try_lock(),
        AccessMode::ReadOnly => file.try_lock_shared(),
    };
    match lock {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::busy(path, "it holds a lock on it")),
        // Some file systems have no locks.
        Err(std::fs::TryLockError::Error(error)) => {
            tracing::warn!(
                event = "lock_unavailable",
                "{} cannot be locked ({error}): take care to open it once only",
                path.display()
            );
            Ok(())
        }
    }
}

fn size(file: &File, kind: Kind) -> io::Result<u64> {
    match kind {
        Kind::File => Ok(file.metadata()?.len()),
        Kind::Block => ioctl::block_size(file),
    }
}

fn zero_speed(file: &File, path: &Path, kind: Kind, access: AccessMode) -> ZeroSpeed {
    let fast = match kind {
        Kind::File => access == AccessMode::ReadWrite && can_punch(file, path),
        Kind::Block => queue_limit(file, "write_zeroes_max_bytes").is_some_and(|limit| limit > 0),
    };
    if fast { ZeroSpeed::Fast } else { ZeroSpeed::Slow }
}

fn queue_limit(file: &File, name: &str) -> Option<u64> {
    let folder = sysfs::folder(file.metadata().ok()?.rdev());
    let text = std::fs::read_to_string(folder.join("queue").join(name)).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
