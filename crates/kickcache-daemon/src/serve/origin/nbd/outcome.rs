//! Messages of a remote origin's thread to the driver's.

use crate::driver::queued_device::ExtentsTold;

#[derive(Debug)]
pub(super) enum Outcome {
    /// A job ended: with the bytes of a read, or an errno.
    Ended { token: u64, result: Result<Vec<u8>, i32> },
    /// The server reported its extents, or cannot report them.
    Told(ExtentsTold),
    /// The server was lost, and may have lost unflushed writes.
    Restarted,
}
