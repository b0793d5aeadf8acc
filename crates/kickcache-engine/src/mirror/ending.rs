//! The meaning of the end of a submission on one of two devices.

use crate::device::{DeviceError, SubmissionId};

/// The meaning of the end of a submission for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The operation has no counterpart on another device: its end is passed to the engine unchanged.
    Passed,
    /// The engine gets no end: the other device has still to complete the submission, or the engine got the end before.
    Awaited,
    /// A submission of the engine has ended on all of its devices, with this result.
    Ended(SubmissionId, Result<(), DeviceError>),
}
