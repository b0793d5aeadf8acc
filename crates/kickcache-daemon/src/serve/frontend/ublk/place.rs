//! Where a volume is served.

use crate::plan::ublk_id::UblkId;

/// Which device a volume is.
pub(crate) struct UblkPlace {
    /// The volume's index.
    pub(crate) volume: usize,
    pub(crate) id: UblkId,
    /// Bytes of a logical block: 512 or 4096.
    pub(crate) block_bytes: u32,
}
