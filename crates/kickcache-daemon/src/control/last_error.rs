//! The errors of a device in a report: how many, and the last one.

use std::time::Duration;

use kickcache_units::{show_count, show_duration};
use serde::{Deserialize, Serialize};

/// The errors of a device since the daemon put it into use.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LastError {
    pub count: u64,
    /// The errno of the last error; `None` if the device moved a wrong number of bytes.
    pub errno: Option<i32>,
    /// The name of the last error, such as `EIO`; `short` without an errno.
    pub name: String,
    /// The failed operation: `read`, `write`, `flush`, `discard`, `write-zeroes`, or `replace` if the
    /// replacement of the device met an error.
    pub operation: String,
    pub offset: u64,
    /// The length of the failed operation, in bytes; 0 for a flush and for `replace`.
    pub length: u64,
    pub seconds_ago: f64,
}

impl LastError {
    pub fn show(&self) -> String {
        let errors = if self.count == 1 { "error" } else { "errors" };
        let count = show_count(self.count);
        let ago = show_duration(Duration::from_secs_f64(self.seconds_ago.clamp(0.0, 1e12)));
        format!("{count} {errors}, the last {} ({}) {ago} ago", self.name, self.operation)
    }
}
