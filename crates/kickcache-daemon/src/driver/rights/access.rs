//! Opens files and devices by their paths: by this process if it has the right, otherwise by the monitor.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::driver::rights::trusted_path::path_of;
use crate::driver::rights::wire::{Answer, Request, Task};

/// The socket of the monitor; unset if this process has no monitor.
static MONITOR: OnceLock<Mutex<OwnedFd>> = OnceLock::new();

pub(super) fn set_monitor(socket: OwnedFd) {
    // The monitor is forked once, so that the socket is set once.
    let _ = MONITOR.set(Mutex::new(socket));
}

/// The metadata of a file.
///
/// # Errors
/// The error of the system, or the reason of the monitor's refusal.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    or_ask(std::fs::metadata(path), || opened(path, Task::Look)?.metadata())
}

/// Whether a file exists at a path; a path that cannot be examined counts as existing.
pub fn exists(path: &Path) -> bool {
    match metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// The path without links.
///
/// # Errors
/// As [`metadata`].
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    or_ask(std::fs::canonicalize(path), || path_of(&opened(path, Task::Look)?))
}

/// Opens the file only as a reference (`O_PATH`).
///
/// # Errors
/// As [`metadata`].
pub(crate) fn look(path: &Path) -> io::Result<File> {
    let local = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    or_ask(local, || opened(path, Task::Look))
}

/// Opens a file to read, with more flags of open(2).
///
/// # Errors
/// As [`metadata`].
pub(crate) fn open_to_read(path: &Path, flags: i32) -> io::Result<File> {
    let local = OpenOptions::new().read(true).custom_flags(flags).open(path);
    or_ask(local, || opened(path, Task::Open(libc::O_RDONLY | flags)))
}

/// Opens a file to read and write, with more flags of open(2).
///
/// # Errors
/// As [`metadata`].
pub(crate) fn open_to_write(path: &Path, flags: i32) -> io::Result<File> {
    let local = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    or_ask(local, || opened(path, Task::Open(libc::O_RDWR | flags)))
}

/// Opens a file to write, which is made for its owner alone if it does not exist.
///
/// # Errors
/// As [`metadata`].
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    // O_EXCL creates no file behind a dangling link.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let local = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path)
        }
        made => made,
    };
    or_ask(local, || opened(path, Task::Make))
}

/// Removes a file; the monitor removes only files that it made for [`make_file`].
///
/// # Errors
/// As [`metadata`].
pub fn remove_made(path: &Path) -> io::Result<()> {
    or_ask(std::fs::remove_file(path), || match ask(path, Task::Remove)? {
        Answer::Done => Ok(()),
        other => Err(error(other)),
    })
}

/// Sends a request to the monitor, if there is one, for an operation that the process may not do itself.
fn or_ask<T>(local: io::Result<T>, ask: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match local {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && MONITOR.get().is_some() => ask(),
        local => local,
    }
}

fn opened(path: &Path, task: Task) -> io::Result<File> {
    match ask(path, task)? {
        Answer::Opened(fd) => Ok(fd.into()),
        other => Err(error(other)),
    }
}

fn error(answer: Answer) -> io::Error {
    match answer {
        Answer::Failed(number) => io::Error::from_raw_os_error(number),
        Answer::Refused(why) => io::Error::new(io::ErrorKind::PermissionDenied, why),
        Answer::Opened(_) | Answer::Done => io::ErrorKind::InvalidData.into(),
    }
}

fn ask(path: &Path, task: Task) -> io::Result<Answer> {
    let monitor = MONITOR.get().ok_or(io::ErrorKind::PermissionDenied)?;
    ask_at(monitor, &Request { task, path: std::path::absolute(path)? })
}

/// Sends requests one after the other; several threads may wait for their answers at the same time.
pub(super) fn ask_at(monitor: &Mutex<OwnedFd>, request: &Request) -> io::Result<Answer> {
    let asked = request.send(&*monitor.lock().unwrap_or_else(PoisonError::into_inner));
    asked.and_then(Answer::receive).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            let why = "the monitor, which would open it, has ended, and the daemon may not itself; start the daemon again";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        _ => error,
    })
}
