//! The memory for the payload of requests, as a daemon reports it.

use serde::{Deserialize, Serialize};

/// The memory for the payload of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The limit in bytes; 0 from a daemon of a version without this limit.
    pub limit_bytes: u64,
    pub used_bytes: u64,
    pub waiting_requests: u64,
}
