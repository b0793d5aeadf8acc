//! The errors of a device in a report, by kind.

use serde::{Deserialize, Serialize};

/// Errors of one kind since the daemon put the device into use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The failed operation: `read`, `write`, `flush`, `discard`, `write-zeroes` or `replace`.
    pub operation: String,
    /// The name of the error, such as `EIO`, or `short`.
    pub name: String,
    pub count: u64,
}
