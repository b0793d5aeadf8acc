//! Sockets that the process was started with (systemd's socket activation).

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};

/// Number of the first inherited descriptor, by convention.
const FIRST: RawFd = 3;
const COUNT_MAX: RawFd = 64;

static TAKEN: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
pub struct InheritedSocket {
    /// The name of the socket in `LISTEN_FDNAMES`; empty if it has no name.
    pub name: String,
    pub fd: OwnedFd,
}

/// The sockets of `LISTEN_FDS` and `LISTEN_PID`, in order; empty if the variables are not for this process or name
/// more than [`COUNT_MAX`], and from the second call on.
pub fn inherited_sockets() -> Vec<InheritedSocket> {
    let count = count();
    if count == 0 || TAKEN.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    let sockets = (FIRST..FIRST + count).zip(names);
    sockets.filter_map(|(fd, name)| Some(InheritedSocket { name, fd: take(fd)? })).collect()
}

/// The paths of the unix sockets at the inherited descriptors that are still open.
pub fn inherited_paths() -> Vec<PathBuf> {
    (FIRST..FIRST + count()).filter_map(path_of).collect()
}

fn path_of(fd: RawFd) -> Option<PathBuf> {
    if !is_open(fd) {
        return None;
    }
    // SAFETY: the descriptor is open, and stays open during the call.
    let address = rustix::net::getsockname(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    let unix = rustix::net::SocketAddrUnix::try_from(address).ok()?;
    Some(OsStr::from_bytes(unix.path_bytes()?).into())
}

fn count() -> RawFd {
    let number = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let is_ours = number("LISTEN_PID") == Some(rustix::process::getpid().as_raw_nonzero().get());
    let count = number("LISTEN_FDS").unwrap_or(0);
    if is_ours && (1..=COUNT_MAX).contains(&count) { count } else { 0 }
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: F_GETFD only looks whether the descriptor is open.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

fn take(fd: RawFd) -> Option<OwnedFd> {
    if !is_open(fd) {
        return None;
    }
    // SAFETY: the descriptor is open, `LISTEN_PID` declares it as this process's own, and `TAKEN` permits
    // one transfer of ownership.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // Children of this process do not inherit the socket.
    let _ = fcntl_setfd(&socket, FdFlags::CLOEXEC);
    Some(socket)
}
