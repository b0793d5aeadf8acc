//! The files of the control socket and of the status socket.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::opener::{Opener, in_brackets};
use crate::plan::address::AddressError;
use crate::shell_command::ShellCommand;
use crate::socket_path::{SocketFile, look};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// The longest wait of a start for the lock of a folder. Any user who may read the folder can hold it.
const LOCK_MAX: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}", sentence(*.users, .path, .fault))]
pub struct ServerError {
    users: SocketUsers,
    path: PathBuf,
    pub fault: SocketFault,
}

/// The reason of a [`ServerError`].
#[derive(Debug)]
pub enum SocketFault {
    /// Another daemon has the socket; the value is its process, if that could be found.
    Live(Option<Opener>),
    /// A file of another type exists there.
    NotASocket,
    /// This path above the socket is no folder.
    NoFolder(PathBuf),
    /// The path is empty or too long.
    Path(AddressError),
    /// A socket of the user with this number is there, and this process may not connect to it.
    OtherUsers(u32),
    Io(io::Error),
}

impl From<io::Error> for SocketFault {
    fn from(error: io::Error) -> SocketFault {
        SocketFault::Io(error)
    }
}

fn sentence(users: SocketUsers, path: &Path, fault: &SocketFault) -> String {
    let (socket, flag, at) = (users.socket(), users.flag(), path.display());
    match fault {
        SocketFault::Live(by) => {
            let by = in_brackets(by.as_ref());
            let stop = match users {
                SocketUsers::Owner => {
                    let stop = ShellCommand::new("stop").control(path);
                    format!("stop it with `{stop}`, or ")
                }
                SocketUsers::Group => String::new(),
            };
            format!(
                "another kickcache daemon{by} answers at the {socket} {at}; {stop}give this one another path with {flag}"
            )
        }
        SocketFault::NotASocket => format!(
            "the {socket} cannot be made: {at} exists and is not a socket; it was left as it is, choose another path with {flag}"
        ),
        SocketFault::NoFolder(above) => {
            let above = above.display();
            format!("the {socket} {at} cannot be made: {above} is no folder; choose another path with {flag}")
        }
        SocketFault::Path(error) => error.to_string(),
        SocketFault::OtherUsers(owner) => format!(
            "the {socket} {at} cannot be made: the user with number {owner} made one there, and this one may not see whether a \
             daemon still serves it; remove it if none does, or choose another path with {flag}"
        ),
        SocketFault::Io(error) => format!("the {socket} {at} cannot be made: {error}"),
    }
}

/// The users with access to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SocketUsers {
    /// The user of the daemon alone: the control socket.
    Owner,
    /// The user of the daemon, and the group of the socket: the status socket.
    Group,
}

impl SocketUsers {
    pub(super) fn fault(self, path: &Path, fault: SocketFault) -> ServerError {
        ServerError { users: self, path: path.into(), fault }
    }

    fn socket(self) -> &'static str {
        match self {
            SocketUsers::Owner => "control socket",
            SocketUsers::Group => "status socket",
        }
    }

    fn flag(self) -> &'static str {
        match self {
            SocketUsers::Owner => "--control",
            SocketUsers::Group => "--status-socket",
        }
    }

    /// The mode of the socket: a connection needs the right to write.
    fn socket_mode(self) -> u32 {
        match self {
            SocketUsers::Owner => 0o600,
            SocketUsers::Group => 0o660,
        }
    }

    fn folder_mode(self) -> u32 {
        match self {
            SocketUsers::Owner => 0o700,
            SocketUsers::Group => 0o750,
        }
    }
}

/// Opens a socket for these users; a socket without a server is replaced, and missing folders are created.
pub(super) fn open(path: &Path, users: SocketUsers) -> Result<UnixListener, ServerError> {
    try_open(path, users).map_err(|fault| users.fault(path, fault))
}

fn try_open(path: &Path, users: SocketUsers) -> Result<UnixListener, SocketFault> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    create_folders(folder, users)?;
    // Two daemons that start at once must not both find the same stale socket.
    let _lock = lock(folder)?;
    make_room(path)?;
    Ok(bind_for(path, users)?)
}

/// Creates the missing folders, with their mode independent of the umask.
fn create_folders(folder: &Path, users: SocketUsers) -> Result<(), SocketFault> {
    let above: Vec<&Path> = folder.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
    if let Some(parent) = above.iter().find(|above| above.exists()).filter(|above| !above.is_dir()) {
        return Err(SocketFault::NoFolder(parent.into()));
    }
    for missing in above.into_iter().rev().filter(|above| !above.exists()) {
        match DirBuilder::new().mode(users.folder_mode()).create(missing) {
            Ok(()) => std::fs::set_permissions(missing, Permissions::from_mode(users.folder_mode()))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Locks a folder, or returns without the lock after [`LOCK_MAX`].
fn lock(folder: &Path) -> io::Result<File> {
    let (lock, start) = (File::open(folder)?, Instant::now());
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if start.elapsed() < LOCK_MAX => {
                thread::sleep(LOCK_PAUSE);
            }
            Ok(()) | Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Ok(lock),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a socket without a server; every other file stays and is an error.
fn make_room(path: &Path) -> Result<(), SocketFault> {
    match look(path)? {
        SocketFile::Nothing => Ok(()),
        SocketFile::Unserved => Ok(std::fs::remove_file(path)?),
        SocketFile::NotASocket => Err(SocketFault::NotASocket),
        SocketFile::Served(by) => Err(SocketFault::Live(by)),
        SocketFile::Untried { owner, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(SocketFault::OtherUsers(owner))
        }
        SocketFile::Untried { source, .. } => Err(source.into()),
    }
}

fn bind_for(path: &Path, users: SocketUsers) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Set before bind, so that the file never has more rights.
    fchmod(&socket, Mode::from_raw_mode(users.socket_mode()))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if users == SocketUsers::Group {
        permit_group(path, users.socket_mode())?;
    }
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Restores the rights of the group, which the umask may have removed. The file may have been replaced since: only a
/// socket at the path itself is changed, never the target of a link.
fn permit_group(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.file_type().is_socket() {
        return Err(io::Error::other("it was replaced while it was made"));
    }
    let place = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(place, Permissions::from_mode(mode))
}
