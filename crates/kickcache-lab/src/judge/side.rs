//! The two sides of a comparison.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The known-good command, or the control.
    Good,
    New,
}

impl Side {
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Good => Side::New,
            Side::New => Side::Good,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Good => "the known-good command",
            Side::New => "the new command",
        })
    }
}
