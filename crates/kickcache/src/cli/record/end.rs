//! Why a recording ended.

use std::io;

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_units::show_bytes;

/// Why a recording ended.
#[derive(Debug)]
pub(crate) enum End {
    /// A signal, or the end of standard output, requested the end.
    Asked,
    /// The time of the recording is over.
    Time,
    /// The only file of the recording is full.
    Full,
    /// The daemon serves the volume no more.
    Stopped,
    /// The disk of the file is nearly full.
    DiskFull {
        /// Bytes that are free; 0 if a write failed for lack of space.
        free: u64,
    },
    /// A file cannot be written.
    Failed(Failure),
    /// The end was requested, and the daemon, which is still connected, did not send the last records in time.
    Silent,
    /// The connection to the daemon has failed.
    Gone(io::Error),
}

impl End {
    /// The end in a few words.
    pub(crate) const fn sentence(&self) -> &'static str {
        match self {
            End::Asked => "a signal ended it",
            End::Time => "its time is over",
            End::Full => "the file has reached --size-max",
            End::Stopped => "the daemon serves the volume no more",
            End::DiskFull { .. } => "the disk is nearly full",
            End::Failed(_) => "a file could not be written",
            End::Silent => "the daemon did not send the last records",
            End::Gone(_) => "the daemon has ended",
        }
    }

    /// The end in a word, for scripts.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            End::Asked => "asked",
            End::Time => "time",
            End::Full => "size",
            End::Stopped => "stopped",
            End::DiskFull { .. } => "disk-full",
            End::Failed(_) => "failed",
            End::Silent => "silent",
            End::Gone(_) => "gone",
        }
    }

    /// The exit of the command.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        match self {
            End::Asked | End::Time | End::Full | End::Stopped => Ok(()),
            End::DiskFull { free } => Err(anyhow!(
                "the recording ended because only {} are free on its disk; the part recorded until then is valid",
                show_bytes(free)
            )
            .into()),
            End::Failed(failure) => Err(failure),
            End::Silent => {
                Err(anyhow!("the daemon is paused, or its machine is: it did not send the last records").into())
            }
            End::Gone(error) => Err(anyhow!(error).context("the recording ended because the daemon has ended").into()),
        }
    }
}
