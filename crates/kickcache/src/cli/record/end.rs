//! Why a recording ended.

use std::io;

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_units::show_bytes;

#[derive(Debug)]
pub(crate) enum End {
    /// A signal or a closed standard output.
    Asked,
    Time,
    Full,
    Stopped,
    DiskFull {
        /// Free bytes; 0 if a write failed for lack of space.
        free: u64,
    },
    Failed(Failure),
    /// The daemon did not send the last records in time.
    Silent,
    Gone(io::Error),
}

impl End {
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

    /// For scripts.
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
