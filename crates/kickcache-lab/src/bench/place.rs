//! The place that fio reads and writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::nbd_uri::NbdUri;
use kickcache_nbd::client::{Client, ConnectOptions};
use rustix::fs::{SeekFrom, seek};

/// The name of a disk or directory for fio, in its working directory.
const PLAIN_NAME: &str = "target";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileKind {
    Shared,
    OfEachJob,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A block device or a file.
    Disk(PathBuf),
    /// A directory, in which fio makes files.
    Directory(PathBuf),
    Nbd(NbdUri),
}

impl Place {
    /// The place at a path or a URI.
    ///
    /// # Errors
    /// If a path does not exist or is neither a block device, a file nor a directory, or a URI is invalid.
    pub(crate) fn find(text: &str) -> anyhow::Result<Place> {
        if NbdUri::is_meant(text) {
            return Ok(Place::Nbd(NbdUri::parse(text)?));
        }
        // fio runs in another directory, so the path must be absolute.
        let path = PathBuf::from(text).canonicalize().with_context(|| format!("{text} cannot be used"))?;
        let kind = path.metadata().with_context(|| format!("{text} cannot be used"))?.file_type();
        match kind {
            directory if directory.is_dir() => Ok(Place::Directory(path)),
            disk if disk.is_file() || disk.is_block_device() => Ok(Place::Disk(path)),
            // The open of a pipe could wait for ever.
            _ => bail!("{text} is not a block device, a file or a directory; name one of these"),
        }
    }

    /// The place by a plain name, a link in the directory that fio runs in: in a job file `#`, `;`, `${X}` and line
    /// breaks of a path would have another meaning. An export stays as it is.
    ///
    /// # Errors
    /// If the link cannot be made.
    pub(super) fn by_plain_name(&self, directory: &Path) -> anyhow::Result<Place> {
        let link = |path: &Path| {
            let link = directory.join(PLAIN_NAME);
            let failed = || format!("{} cannot be made", link.display());
            match fs::remove_file(&link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(failed),
                Ok(()) | Err(_) => symlink(path, &link).with_context(failed),
            }
        };
        Ok(match self {
            Place::Disk(path) => {
                link(path)?;
                Place::Disk(PLAIN_NAME.into())
            }
            // fio does not accept a link as a directory, but a path through the link.
            Place::Directory(path) => {
                link(path)?;
                Place::Directory(Path::new(PLAIN_NAME).join("."))
            }
            Place::Nbd(uri) => Place::Nbd(uri.clone()),
        })
    }

    pub(crate) fn options(&self) -> Vec<String> {
        match self {
            // A colon separates files.
            Place::Disk(path) => {
                let name = path.display().to_string().replace(':', "\\:");
                vec![format!("filename={name}"), "allow_file_create=0".into()]
            }
            Place::Directory(path) => {
                vec![format!("directory={}", path.display().to_string().replace(':', "\\:"))]
            }
            Place::Nbd(uri) => vec!["ioengine=nbd".into(), format!("uri={uri}")],
        }
    }

    pub(super) fn file_kind(&self) -> FileKind {
        match self {
            Place::Disk(_) | Place::Nbd(_) => FileKind::Shared,
            Place::Directory(_) => FileKind::OfEachJob,
        }
    }

    /// The size of the place; `None` for a directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn size(&self) -> anyhow::Result<Option<u64>> {
        match self {
            Place::Disk(path) => file_size(path).map(Some),
            Place::Directory(_) => Ok(None),
            Place::Nbd(uri) => Ok(Some(connect(uri)?.export().size)),
        }
    }
}

/// Whether more than a tenth of the first bytes of a file are holes, or allocated space that was never written:
/// both are read without disk I/O. A block device, an empty file and a file that cannot be opened count as without
/// holes.
pub(crate) fn has_holes(path: &Path, bytes: u64) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(metadata) = file.metadata() else { return false };
    let end = bytes.min(metadata.len());
    if !metadata.is_file() || end == 0 {
        return false;
    }
    let (mut at, mut data) = (0, 0);
    while at < end {
        // If there is no data behind `at`, the seek fails.
        let Ok(start) = seek(&file, SeekFrom::Data(at)) else { break };
        let Ok(hole) = seek(&file, SeekFrom::Hole(start)) else { break };
        data += hole.min(end).saturating_sub(start);
        at = hole;
    }
    data < end - end / 10
}

fn file_size(path: &Path) -> anyhow::Result<u64> {
    let sized = File::open(path).and_then(|file| Ok(seek(&file, SeekFrom::End(0))?));
    sized.with_context(|| format!("{} cannot be read", path.display()))
}

pub(super) fn connect(uri: &NbdUri) -> anyhow::Result<Client> {
    let tls = uri.client_tls()?;
    let options = ConnectOptions { export: uri.export().into(), tls, ..ConnectOptions::default() };
    let client = match uri.address() {
        NbdAddress::Unix(path) => Client::connect_unix(path, &options),
        NbdAddress::Tcp { host, port } => Client::connect_tcp((host.as_str(), *port), &options),
    };
    client.with_context(|| format!("{uri} cannot be reached"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_and_unwritten_space_are_distinguished_from_data() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("file");
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(has_holes(&path, u64::MAX));
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert!(has_holes(&path, u64::MAX));
        file.write_all_at(&[7; 512 << 10], 0).unwrap();
        file.sync_all().unwrap();
        assert!(has_holes(&path, u64::MAX));
        assert!(!has_holes(&path, 512 << 10), "the job does not read behind it");
        file.write_all_at(&[7; 512 << 10], 512 << 10).unwrap();
        file.sync_all().unwrap();
        assert!(!has_holes(&path, u64::MAX));
    }
}
