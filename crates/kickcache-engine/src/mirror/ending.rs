//! What the end of a submission on one of two devices means.

use crate::device::{DeviceError, SubmissionId};

/// What the end of a submission means to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It is one of the engine's, as it ended.
    Passed,
    /// Nothing yet.
    Awaited,
    /// A submission of the engine has ended so.
    Ended(SubmissionId, Result<(), DeviceError>),
}
