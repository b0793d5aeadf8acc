//! What is wrong with a job file.

use thiserror::Error;

/// What is wrong with a job file.
#[derive(Error, Debug)]
#[error("{place}: {what}")]
pub struct JobFileError {
    /// The line or the job.
    pub(crate) place: String,
    /// What was found, what was expected, what to do.
    pub(crate) what: String,
}
