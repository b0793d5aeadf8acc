//! The meaning of the end of a submission on one of two devices.

use crate::device::{DeviceError, SubmissionId};

/// The meaning of the end of a submission for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The end is passed to the engine unchanged.
    Passed,
    /// The engine gets no end.
    Awaited,
    /// A submission of the engine has ended, with this result.
    Ended(SubmissionId, Result<(), DeviceError>),
}
