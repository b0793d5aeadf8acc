//! The memory for the payload of requests, as a daemon reports it.

use serde::{Deserialize, Serialize};

/// The memory for the payload of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The limit in bytes; 0 from a daemon of a version without this limit.
    pub limit_bytes: u64,
    /// Bytes of memory that requests use.
    pub used_bytes: u64,
    /// Requests that wait for memory.
    pub waiting_requests: u64,
}
