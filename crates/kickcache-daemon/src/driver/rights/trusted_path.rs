//! Paths and the owners of their directories.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

/// The most links on the way that are followed.
const LINKS_MAX: usize = 40;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a path is not walked.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Others than root, or than root and the caller, may make or exchange entries of a folder on the way.
    #[error("others than root may change the folder {}", .0.display())]
    Folder(PathBuf),
}

/// Where a path leads to.
pub struct ResolvedPath {
    pub folder: File,
    pub name: OsString,
    /// The file (`O_PATH`); `None` if it does not exist.
    pub found: Option<File>,
    pub reach: Reach,
}

/// The users with the right to exchange the file at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    Trusted,
    Others,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// A directory is trusted if it belongs to root, and others cannot write to it or it is sticky; a path through another
    /// directory is refused.
    RootAlone,
    /// As [`Rule::RootAlone`], with directories of the caller trusted too; a path through another directory
    /// is walked, but links in such directories, and in directories that others can write to, are refused.
    CallerToo,
}

impl Rule {
    fn trusts(self, owner: u32) -> bool {
        owner == 0 || self == Rule::CallerToo && owner == rustix::process::geteuid().as_raw()
    }
}

struct Folder {
    file: File,
    /// Whether other users may make files in the folder.
    is_shared: bool,
    /// Whether other users can also rename and remove entries of the folder.
    is_foreign: bool,
}

impl Folder {
    /// A folder that is not trusted is an error by [`Rule::RootAlone`].
    fn check(file: File, rule: Rule) -> Result<Folder, Untrusted> {
        let metadata = file.metadata()?;
        let is_writable = metadata.mode() & WRITABLE_BY_OTHERS != 0;
        let is_trusted = rule.trusts(metadata.uid()) && (!is_writable || metadata.mode() & STICKY != 0);
        let folder = Folder { file, is_shared: is_writable || !is_trusted, is_foreign: !is_trusted };
        if is_trusted || rule == Rule::CallerToo { Ok(folder) } else { Err(folder.refuse()) }
    }

    fn root(rule: Rule) -> Result<Folder, Untrusted> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Folder::check(File::from(openat(CWD, "/", flags, Mode::empty()).map_err(io::Error::from)?), rule)
    }

    fn refuse(&self) -> Untrusted {
        Untrusted::Folder(path_of(&self.file).unwrap_or_default())
    }
}

pub(super) fn path_of(file: &File) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Walks a path from the root, name by name and link by link.
///
/// # Errors
/// [`Untrusted`]; also if a folder on the way is missing, or the file is missing in a shared folder.
pub fn walk(path: &Path) -> Result<ResolvedPath, Untrusted> {
    walk_by(path, Rule::RootAlone)
}

/// Walks a path as [`walk`] does, with directories of the caller as trusted as those of root.
///
/// # Errors
/// As [`walk`].
pub fn walk_for_caller(path: &Path) -> Result<ResolvedPath, Untrusted> {
    walk_by(path, Rule::CallerToo)
}

fn walk_by(path: &Path, rule: Rule) -> Result<ResolvedPath, Untrusted> {
    let mut folder = Folder::root(rule)?;
    let mut ahead: VecDeque<OsString> = names(path);
    let (mut links, mut reach) = (0, Reach::Trusted);
    while let Some(name) = ahead.pop_front() {
        if name == "/" {
            folder = Folder::root(rule)?;
            continue;
        }
        if folder.is_foreign {
            reach = Reach::Others;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found: File = match openat(&folder.file, &name, flags, Mode::empty()) {
            Ok(found) => OwnedFd::into(found),
            Err(rustix::io::Errno::NOENT) if ahead.is_empty() && !folder.is_shared => {
                return Ok(ResolvedPath { folder: folder.file, name, found: None, reach });
            }
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            let next = Folder::check(found, rule)?;
            if ahead.is_empty() {
                let reach = if next.is_foreign { Reach::Others } else { reach };
                return Ok(ResolvedPath { folder: folder.file, name, found: Some(next.file), reach });
            }
            folder = next;
            continue;
        }
        // Other users may have created the entry, or may move it.
        if folder.is_shared {
            if metadata.is_symlink() || rule == Rule::RootAlone {
                return Err(folder.refuse());
            }
            reach = Reach::Others;
        }
        if !metadata.is_symlink() {
            return match ahead.is_empty() {
                true => Ok(ResolvedPath { folder: folder.file, name, found: Some(found), reach }),
                false => Err(io::Error::from(io::ErrorKind::NotADirectory).into()),
            };
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        let target = readlinkat(&found, "", Vec::new()).map_err(io::Error::from)?;
        let target: PathBuf = OsString::from_vec(target.into_bytes()).into();
        for name in names(&target).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput).into())
}

fn names(path: &Path) -> VecDeque<OsString> {
    let step = |component: Component<'_>| match component {
        Component::RootDir => Some(OsStr::new("/").to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::Normal(name) => Some(name.to_owned()),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    Block(u64),
    Inode { device: u64, inode: u64 },
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Identity {
        match metadata.file_type().is_block_device() {
            true => Identity::Block(metadata.rdev()),
            false => Identity::Inode { device: metadata.dev(), inode: metadata.ino() },
        }
    }
}

/// Refuses a missing file, and a file or directory that others than root and the caller can write or replace.
///
/// # Errors
/// A sentence.
pub fn check_private(path: &Path) -> Result<(), String> {
    let name = path.display();
    let walked = walk_for_caller(path).map_err(|error| format!("{name}: {error}"))?;
    let found = walked.found.ok_or_else(|| format!("{name} does not exist"))?;
    let metadata = found.metadata().map_err(|error| format!("{name}: {error}"))?;
    let is_private = Rule::CallerToo.trusts(metadata.uid()) && metadata.mode() & WRITABLE_BY_OTHERS == 0;
    match walked.reach == Reach::Trusted && is_private {
        true => Ok(()),
        false => Err(format!("others than root and this user can write to {name}, or replace it")),
    }
}

/// Refuses a missing file, and a file that others than root may change or replace.
///
/// # Errors
/// A sentence.
pub fn check_file_of_root(path: &Path) -> Result<(), String> {
    let name = path.display();
    let found = walk(path).map_err(|error| format!("{name}: {error}"))?.found;
    let found = found.ok_or_else(|| format!("{name} does not exist"))?;
    let metadata = found.metadata().map_err(|error| format!("{name}: {error}"))?;
    match metadata.uid() == 0 && metadata.mode() & WRITABLE_BY_OTHERS == 0 {
        true => Ok(()),
        false => Err(format!("others than root may change the file {name}")),
    }
}
