//! An export as its server describes it.

use crate::wire::export_flag;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteExport {
    pub size: u64,
    pub flags: u16,
    /// Minimum, preferred and maximum block size in bytes, if the server reported them.
    pub block_sizes: Option<[u32; 3]>,
    pub structured: bool,
    /// The number of base:allocation, if it was agreed on.
    pub allocation: Option<u32>,
}

impl RemoteExport {
    pub fn is_read_only(&self) -> bool {
        self.flags & export_flag::READ_ONLY != 0
    }

    pub fn has_flush(&self) -> bool {
        self.flags & export_flag::FLUSH != 0
    }

    pub fn has_trim(&self) -> bool {
        self.flags & export_flag::TRIM != 0
    }

    /// Whether the export may be used by several connections: a flush of one covers the writes of all.
    pub fn has_multi_conn(&self) -> bool {
        self.flags & export_flag::MULTI_CONN != 0
    }

    pub fn has_fua(&self) -> bool {
        self.flags & export_flag::FUA != 0
    }

    pub fn has_write_zeroes(&self) -> bool {
        self.flags & export_flag::WRITE_ZEROES != 0
    }
}
