//! The meaning of the end of a submission on one of two devices.

use crate::device::{DeviceError, SubmissionId};

/// The meaning of the end of a submission for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It is the end of a submission of the engine, with this result.
    Passed,
    /// The other device has still to complete it.
    Awaited,
    /// A submission of the engine has ended so.
    Ended(SubmissionId, Result<(), DeviceError>),
}
