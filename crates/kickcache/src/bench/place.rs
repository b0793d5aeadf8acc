//! What fio works on.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::nbd_uri::NbdUri;
use kickcache_nbd::client::{Client, ConnectOptions};

/// Whether jobs share what they work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileKind {
    /// One device for all.
    Shared,
    /// A file for each job.
    OfEachJob,
}

/// A disk, a file system or an export.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A block device or a file.
    Disk(PathBuf),
    /// A directory, in which fio makes files.
    Directory(PathBuf),
    /// An export of an NBD server.
    Nbd(NbdUri),
}

impl Place {
    /// What is at a path or a URI.
    ///
    /// # Errors
    /// If there is nothing, or nothing that fio can work on.
    pub(crate) fn find(text: &str) -> anyhow::Result<Place> {
        if NbdUri::is_meant(text) {
            return Ok(Place::Nbd(NbdUri::parse(text)?));
        }
        // fio runs elsewhere.
        let path = PathBuf::from(text).canonicalize().with_context(|| format!("{text} cannot be used"))?;
        let kind = path.metadata().with_context(|| format!("{text} cannot be used"))?.file_type();
        Ok(if kind.is_dir() { Place::Directory(path) } else { Place::Disk(path) })
    }

    /// Options for the first section of a job file.
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

    /// Whether jobs share it.
    pub(super) fn file_kind(&self) -> FileKind {
        match self {
            Place::Disk(_) | Place::Nbd(_) => FileKind::Shared,
            Place::Directory(_) => FileKind::OfEachJob,
        }
    }

    /// Its size; nothing for a directory.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(crate) fn size(&self) -> anyhow::Result<Option<u64>> {
        match self {
            Place::Disk(path) => file_size(path).map(Some),
            Place::Directory(_) => Ok(None),
            Place::Nbd(uri) => Ok(Some(connect(uri)?.export().size)),
        }
    }
}

fn file_size(path: &Path) -> anyhow::Result<u64> {
    let sized = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    sized.with_context(|| format!("{} cannot be read", path.display()))
}

/// Connects to an export.
pub(super) fn connect(uri: &NbdUri) -> anyhow::Result<Client> {
    let tls = uri.client_tls()?;
    let options = ConnectOptions { export: uri.export().into(), tls, ..ConnectOptions::default() };
    let client = match uri.address() {
        NbdAddress::Unix(path) => Client::connect_unix(path, &options),
        NbdAddress::Tcp { host, port } => Client::connect_tcp((host.as_str(), *port), &options),
    };
    client.with_context(|| format!("{uri} cannot be reached"))
}
