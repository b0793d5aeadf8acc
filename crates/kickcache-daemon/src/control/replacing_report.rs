//! A cache device that is being replaced, or left out, in a report.

use serde::{Deserialize, Serialize};

/// A cache device that is being replaced: it is copied to another one, which then takes over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplacingReport {
    /// The path of the new device.
    pub with: String,
    /// The present step.
    #[serde(default)]
    pub step: ReplacingStep,
    /// Bytes that have been copied.
    pub copied_bytes: u64,
    /// Bytes to be copied in all.
    pub bytes: u64,
}

/// The step of the replacement by a new device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacingStep {
    /// The new device is prepared for the copy.
    Preparing,
    /// The cache device is copied to the new device.
    #[default]
    Copying,
    /// The copy is complete, and the device becomes the cache device.
    TakingOver,
}

/// A cache device that is being left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeavingOutReport {
    /// Bytes that the origins still lack, or have not flushed.
    pub left_bytes: u64,
    /// Bytes that the origins lacked, or had not flushed, when the leave-out began.
    pub bytes: u64,
}
