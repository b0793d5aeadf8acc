//! The states that a cache is measured in.

use serde::{Deserialize, Serialize};

/// The state of a cache when the job starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// The target as it is
    Found,
    /// The cache is empty
    Empty,
    /// The cache is full of stale data, which is never requested again
    Stale,
    /// As the previous run left it, after a stop and start of the server
    Restart,
    /// As the run before left it
    Repeated,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Found => "as found",
            Phase::Empty => "empty cache",
            Phase::Stale => "stale data",
            Phase::Restart => "restarted",
            Phase::Repeated => "repeated",
        }
    }
}
