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
    /// The cache is full of stale data: read a lot, never asked for again
    Stale,
    /// As the run before left it, but what serves it was stopped and started
    Restart,
    /// As the run before left it
    Repeated,
}

impl Phase {
    /// It in a table.
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
