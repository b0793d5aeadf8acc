//! The control socket: queries and commands to a running daemon.
//!
//! Each request and each reply is a line with a JSON object, except the parcels of a recording. Only the owner and
//! root can open the control socket; the status socket is also for its group, and only reports the status.

pub mod activity;
pub mod client;
pub mod condition;
mod condition_kind;
mod connections;
pub mod error_count;
mod feed;
pub mod host_report;
pub mod last_error;
pub mod limits_report;
pub mod lru_curve;
pub mod memory_report;
pub mod recording_client;
pub mod remedy;
pub mod replacing_report;
pub mod report;
pub mod server;
pub mod socket_file;
mod status_only;
mod unique_keys;
pub mod wear_report;
pub mod wire;
mod workers;

use std::time::Duration;

use crate::control::report::Report;
use crate::control::wire::{
    Growing, LeaveOutOrder, LeftOut, RecordingTitle, Reloaded, RemoveOrder, Removed, ReplacementOrder,
    Replacing, Resized, VolumeToAdd,
};
use crate::plan::removal::UnlinkedFate;
use crate::recording::ring::Recording;
use crate::words::ModeWord;

/// A recording that has begun.
pub struct TitledRecording {
    /// The recorded volume.
    pub title: RecordingTitle,
    /// Its requests.
    pub recording: Recording,
}

/// The target of the control socket: a running daemon.
///
/// Every call must return soon, unless its comment permits a wait: a drain is started, not waited for. Every call
/// may also fail because the daemon is still starting, or does not answer in time.
pub trait ControlTarget: Send + Sync + 'static {
    /// State and counters of all volumes and cache devices.
    ///
    /// # Errors
    /// The daemon is starting, or none of its servers answers.
    fn status(&self) -> Result<Report, ControlError>;

    /// Changes the mode of a volume.
    ///
    /// # Errors
    /// No such volume, or it is about to go; the daemon is starting or stopping; or the server of the volume
    /// refuses or does not answer.
    fn set_mode(&self, volume: &str, mode: ModeWord) -> Result<(), ControlError>;

    /// Begins to write all dirty blocks of a volume back.
    ///
    /// # Errors
    /// No such volume, or it is about to go; the daemon is starting or stopping; or the server of the volume
    /// refuses or does not answer.
    fn drain(&self, volume: &str) -> Result<(), ControlError>;

    /// Stops caching reads of a volume for a time; a zero time ends the pause.
    ///
    /// # Errors
    /// No such volume, or it is about to go; the daemon is starting or stopping; or the server of the volume
    /// refuses or does not answer.
    fn pause_caching(&self, volume: &str, span: Duration) -> Result<(), ControlError>;

    /// Takes over the size of a volume's origin, which was extended.
    ///
    /// # Errors
    /// No such volume, an origin that shrank, a device that does not answer in time, or the daemon is starting or
    /// stopping.
    fn resize(&self, volume: &str) -> Result<Resized, ControlError>;

    /// Begins to extend the use of a cache device (`None`: the only one): to this many bytes of a cache file,
    /// or to the whole device. A check only looks for obstacles.
    ///
    /// # Errors
    /// There is no such device, the device cannot grow in this way or does not respond in time, or the daemon is
    /// starting or stopping.
    fn grow(
        &self,
        device: Option<&str>,
        size_bytes: Option<u64>,
        extent: ChangeExtent,
    ) -> Result<Growing, ControlError>;

    /// Begins to replace a cache device by another one, or only checks whether this is possible. The call waits
    /// until the new device is ready.
    ///
    /// # Errors
    /// There is no such device, the new device cannot take over, or the daemon is starting or stopping.
    fn replace(&self, order: &ReplacementOrder) -> Result<Replacing, ControlError>;

    /// Serves the volumes of a cache device without it, or only checks for obstacles. May take as long as dirty
    /// blocks take to be written back.
    ///
    /// # Errors
    /// The cache device stays in use: its path is unknown, its blocks cannot be written back, another change does
    /// not end in time, or the daemon is starting or stopping; or the device was left out already.
    fn leave_out(&self, order: &LeaveOutOrder) -> Result<LeftOut, ControlError>;

    /// Begins to record the requests of a volume, until the returned recording is dropped or the volume's server
    /// ends it.
    ///
    /// # Errors
    /// No such volume, too many recordings, or the daemon is starting or stopping.
    fn record(&self, volume: &str) -> Result<TitledRecording, ControlError>;

    /// Serves one more volume, or only checks whether this is possible. May take as long as the origin takes to answer.
    /// Returns a hint if the next start may not serve the volume.
    ///
    /// # Errors
    /// The volume cannot be served, and the daemon is unchanged.
    fn add(&self, volume: &VolumeToAdd) -> Result<Option<String>, ControlError>;

    /// Serves a volume no longer, or only checks for obstacles. May take as long as dirty blocks take to be written back.
    ///
    /// # Errors
    /// The volume stays, except if its removal cannot be recorded on the cache device.
    fn remove(&self, order: &RemoveOrder) -> Result<Removed, ControlError>;

    /// Applies the present configuration file, or returns the difference. May take as long as the writeback
    /// of dirty blocks.
    ///
    /// # Errors
    /// A difference cannot be applied, or the file is wrong, and the daemon is unchanged; a step failed, and the error
    /// lists the changes made before it; another change does not end in time; or the daemon is starting or stopping.
    fn reload(&self, extent: ReloadExtent) -> Result<Reloaded, ControlError>;

    /// Begins a clean stop.
    ///
    /// # Errors
    /// Data in removed files would be lost, and may not.
    fn stop(&self, unlinked: UnlinkedFate) -> Result<(), ControlError>;
}

/// Whether a change is applied or only checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeExtent {
    /// The change is made.
    All,
    /// The planned change is only reported.
    CheckOnly,
}

/// Whether a reload is applied or only reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadExtent {
    /// The difference is applied.
    All,
    /// The difference is reported.
    DifferenceOnly,
}

/// The reason why a daemon refuses a command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    /// No volume has the name.
    #[error("there is no volume `{name}` here; there is {}", known.join(", "))]
    NoVolume {
        /// The requested name.
        name: String,
        /// The names of the served volumes.
        known: Vec<String>,
    },
    /// The daemon is ending.
    #[error("the daemon is stopping")]
    Stopped,
    /// The request, or the configuration file, is wrong in itself.
    #[error("{0}")]
    Wrong(String),
    /// The operation is still running, in a sentence.
    #[error("{0}")]
    Running(String),
    /// Other reasons, in a sentence.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests;
