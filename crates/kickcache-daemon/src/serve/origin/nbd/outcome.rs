//! What the thread of a remote origin tells the driver's.

use crate::driver::queued_device::ExtentsTold;

/// What comes back, in the order in which it happened.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A job ended: with the bytes of a read, or an errno.
    Ended { token: u64, result: Result<Vec<u8>, i32> },
    /// The server told of its extents, or cannot.
    Told(ExtentsTold),
    /// The server was lost, and may have lost what it had not flushed.
    Restarted,
}
