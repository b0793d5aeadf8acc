//! The errors of job files.

use thiserror::Error;

/// A defect of a job file.
#[derive(Error, Debug)]
#[error("{place}: {what}")]
pub struct JobFileError {
    /// The line or the job.
    pub(crate) place: String,
    /// The text found, the text expected, and the remedy.
    pub(crate) what: String,
}
