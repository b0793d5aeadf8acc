//! A cache device that is being replaced, or left out, in a report.

use serde::{Deserialize, Serialize};

/// A cache device that is being replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplacingReport {
    /// The path of the new device.
    pub with: String,
    #[serde(default)]
    pub step: ReplacingStep,
    pub copied_bytes: u64,
    /// Bytes to be copied in all.
    pub bytes: u64,
}

/// The step of the replacement by a new device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacingStep {
    Preparing,
    #[default]
    Copying,
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
