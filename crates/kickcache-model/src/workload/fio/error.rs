//! The errors of job files.

use thiserror::Error;

#[derive(Error, Debug)]
#[error("{place}: {what}")]
pub struct JobFileError {
    pub(crate) place: String,
    /// The text found, the text expected, and the remedy.
    pub(crate) what: String,
}
