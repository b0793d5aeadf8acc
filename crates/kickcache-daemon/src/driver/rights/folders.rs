//! Changes the owner of the daemon's writable folders to its user account.

use std::ffi::OsStr;
use std::fs::{DirEntry, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, chownat, fchown, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Gid, Uid};

use crate::driver::rights::account::Account;
use crate::driver::rights::trusted_path::{Untrusted, walk};

/// The purpose of a folder, which decides its allowed contents.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Records, which the user becomes the owner of as well.
    State {
        is_record: fn(&OsStr) -> bool,
    },
    Sockets,
}

/// Gives a folder to a user: it is created if it is missing, with its parents; if others than root can change
/// a parent, all stays as it is. If only root can change the folder, and the user is not root, all entries
/// are checked: if they are expected, the user becomes the owner of the folder, else this is an error.
/// `passed` are sockets that the process was started with: they stay as they are when the folder's owner
/// changes.
///
/// # Errors
/// A sentence.
pub fn give(path: &Path, purpose: Purpose, account: &Account, passed: &[PathBuf]) -> Result<(), String> {
    let failed = |error: io::Error| {
        format!("the folder {} cannot be given to the user {}: {error}", path.display(), account.name)
    };
    if let Err(error) = make_above(path) {
        return match error {
            Untrusted::Folder(_) => Ok(()),
            Untrusted::Io(error) => Err(failed(error)),
        };
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    match walk(path) {
        Ok(_) => {}
        Err(Untrusted::Folder(_)) => match purpose {
            Purpose::Sockets => return clear(path).map_err(failed),
            Purpose::State { .. } => return Ok(()),
        },
        Err(Untrusted::Io(error)) => return Err(failed(error)),
    }
    let folder = File::open(path).map_err(failed)?;
    let metadata = folder.metadata().map_err(failed)?;
    if !is_roots_alone(&metadata) || account.uid.is_root() {
        return Ok(());
    }
    let uid = Some(Uid::from_raw(account.uid.as_raw()));
    let gid = Some(Gid::from_raw(account.gid.as_raw()));
    let mut entries: Vec<DirEntry> =
        std::fs::read_dir(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    entries.retain(|entry| !passed.contains(&entry.path()));
    // All entries are checked before any is changed.
    for entry in &entries {
        check_entry(&entry.path(), &entry.metadata().map_err(failed)?, purpose, account)?;
    }
    for entry in &entries {
        let name = entry.file_name();
        match purpose {
            Purpose::State { .. } => chownat(&folder, &name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
            Purpose::Sockets if entry.file_type().map_err(failed)?.is_socket() => {
                unlinkat(&folder, &name, AtFlags::empty())
            }
            Purpose::Sockets => Ok(()),
        }
        .map_err(|error| failed(error.into()))?;
    }
    // The folder is last: until now no other user could add files.
    fchown(&folder, uid, gid).map_err(|error| failed(error.into()))
}

/// Removes sockets that a former root daemon left in a folder of the user.
fn clear(path: &Path) -> io::Result<()> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = File::options().read(true).custom_flags(flags).open(path)?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.file_type().is_socket() && found.uid() == 0 && is_dead(&entry.path()) {
            unlinkat(&folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Whether no process serves a socket. A socket with a full backlog is served; this call does not wait for
/// it.
fn is_dead(path: &Path) -> bool {
    connect_at_once(path).is_err_and(|error| error == Errno::CONNREFUSED)
}

/// Connects to a socket, if there is room for one more.
pub(super) fn connect_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn is_roots_alone(metadata: &Metadata) -> bool {
    metadata.is_dir() && metadata.uid() == 0 && metadata.mode() & 0o022 == 0
}

/// Creates the missing parents of a folder, accessible to all users.
fn make_above(path: &Path) -> Result<(), Untrusted> {
    let Some(above) = path.parent() else { return Ok(()) };
    if above.exists() {
        return walk(above).map(drop);
    }
    make_above(above)?;
    std::fs::create_dir(above)?;
    Ok(std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755))?)
}

fn check_entry(path: &Path, found: &Metadata, purpose: Purpose, account: &Account) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default();
    let what = match purpose {
        Purpose::State { is_record } if is_record(name) && found.is_file() && found.nlink() == 1 => {
            return Ok(());
        }
        Purpose::State { .. } => "which is no note of kickcache",
        Purpose::Sockets if found.is_dir() && found.uid() == account.uid.as_raw() => return Ok(()),
        Purpose::Sockets if found.is_dir() => "the folder of another daemon",
        Purpose::Sockets if !found.file_type().is_socket() => "which is no socket",
        Purpose::Sockets if is_dead(path) => return Ok(()),
        Purpose::Sockets => "the socket of a daemon that root started",
    };
    let folder = path.parent().unwrap_or(path).display();
    Err(format!(
        "the folder {folder} is root's, and is not given to the user {}: it holds {}, {what}; name another folder, or change its owner yourself",
        account.name,
        path.display()
    ))
}
