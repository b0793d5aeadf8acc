//! The reasons why a server cannot start, has ended, or refuses a command.

use std::io;
use std::path::{Path, PathBuf};

use kickcache_engine::error::Error;
use kickcache_tls::TlsError;

use crate::devices::damaged_log::damaged_log;
use crate::driver::device::OpenError;
use crate::serve::config::StatePlace;
use crate::shell_command::Flag;

/// An error of serving, as a sentence.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// The cache device, a volume, or a change of either is refused.
    #[error("{path}: {source}")]
    Engine {
        /// The cache device.
        path: PathBuf,
        source: Error,
    },
    /// The device cannot be used as a cache device, or cannot be changed in its present state.
    #[error("{path}: {what}")]
    Cache {
        /// The cache device.
        path: PathBuf,
        what: String,
    },
    /// Another operation writes the superblock of the cache device.
    #[error("{path}: {what}")]
    Busy {
        /// The cache device.
        path: PathBuf,
        what: String,
    },
    /// A device has not answered for a while; the operation continues, and ends when the device answers.
    #[error("{device}: {what}")]
    StillRunning {
        /// The device or the volume.
        device: String,
        what: String,
    },
    /// The state directory is missing or unreadable, or the records of the cache device and its origins
    /// cannot be written to it.
    #[error("{path}: {what}")]
    Unnoted {
        /// The cache device.
        path: PathBuf,
        what: String,
    },
    /// The cache device cannot be read or written.
    #[error("{path}: cannot {action}: {source}; see the kernel's messages (dmesg); to start without it, use {}",
        Flag::new("--without-cache", path.as_os_str()))]
    CacheIo {
        /// The cache device.
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    /// A device that is to take over, and is no cache device yet, cannot be read or written.
    #[error("{path}: cannot {action}: {source}; see the kernel's messages (dmesg)")]
    Successor {
        /// The device.
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    /// A volume does not match the records about its origin or name, cannot be served, or cannot be changed
    /// now.
    #[error("volume {name}: {what}")]
    Volume {
        /// The name of the volume.
        name: String,
        what: String,
    },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Volumes(Vec<RefusedVolume>),
    /// The origin of a volume cannot be used.
    #[error("volume {name}: {source}")]
    Origin {
        /// The name of the volume.
        name: String,
        source: OpenError,
    },
    #[error("cannot serve on {address}: {what}")]
    Address {
        /// The address.
        address: String,
        what: String,
    },
    #[error("cannot serve NBD with TLS: {0}")]
    Tls(#[from] TlsError),
    /// The system refused an operation.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted operation.
        action: &'static str,
        source: io::Error,
    },
    /// A user cut a stop short, before all operations, requests and records had ended.
    #[error("{what}")]
    GivenUp {
        /// The awaited devices, records or requests, and the consequence.
        what: String,
    },
    /// The server ended cleanly, but some blocks are only on a cache device out of service, or dirty blocks or the data
    /// of removed files are lost.
    #[error("{what}")]
    LeftBehind {
        /// The blocks or files, and the remedy if there is one.
        what: String,
    },
    /// The server has ended or is stopping, its loop did not answer in time, or a stop request
    /// ended a wait.
    #[error("the server has stopped")]
    Stopped,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("volume {name}: {what}")]
pub struct RefusedVolume {
    pub name: String,
    pub what: String,
}

impl ServeError {
    /// Returns the refused volumes as an error.
    ///
    /// # Errors
    /// If `refused` is not empty.
    pub(crate) fn refusing(mut refused: Vec<RefusedVolume>) -> Result<(), ServeError> {
        match refused.pop() {
            None => Ok(()),
            Some(RefusedVolume { name, what }) if refused.is_empty() => {
                Err(ServeError::Volume { name, what })
            }
            Some(last) => {
                refused.push(last);
                Err(ServeError::Volumes(refused))
            }
        }
    }

    /// Whether the server ended by a stop that was cut short, or that left data behind or lost.
    pub fn is_incomplete_stop(&self) -> bool {
        matches!(self, ServeError::GivenUp { .. } | ServeError::LeftBehind { .. })
    }

    /// Turns an I/O error into one of the successor: its message must not advise a start without the device.
    pub(crate) fn of_successor(self) -> ServeError {
        match self {
            ServeError::CacheIo { path, action, source } => ServeError::Successor { path, action, source },
            other => other,
        }
    }

    /// The engine's refusal of a cache device.
    pub(crate) fn of_engine(path: &Path, source: Error, state: &StatePlace) -> ServeError {
        match damaged_log(&source, path, state) {
            Some(next) => ServeError::Cache { path: path.into(), what: format!("{source}; {next}") },
            None => ServeError::Engine { path: path.into(), source },
        }
    }

    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> ServeError {
        move |source| ServeError::System { action, source }
    }
}
