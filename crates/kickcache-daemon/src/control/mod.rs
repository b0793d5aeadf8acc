//! The control socket: what a running daemon can be asked and told.
//!
//! One request and one reply a line, each a JSON object, over a unix socket that only its owner can open.

pub mod activity;
pub mod client;
mod connections;
pub mod error_count;
mod feed;
pub mod last_error;
pub mod limits_report;
pub mod lru_curve;
pub mod memory_report;
pub mod recording_client;
pub mod replacing_report;
pub mod report;
pub mod server;
mod unique_keys;
pub mod wear_report;
pub mod wire;
mod workers;

use std::time::Duration;

use crate::control::report::Report;
use crate::control::wire::{
    Growing, LeaveOutOrder, LeftOut, RecordingTitle, Reloaded, Removed, ReplacementOrder, Replacing, Resized,
    VolumeToAdd,
};
use crate::plan::removal::{Clients, DirtyFate};
use crate::recording::ring::Recording;
use crate::words::ModeWord;

/// A recording that has begun.
pub struct TitledRecording {
    /// Of what.
    pub title: RecordingTitle,
    /// Its requests.
    pub recording: Recording,
}

/// What the control socket speaks for: a running daemon.
///
/// Every call but those that say so must return soon: a drain is begun, not waited for.
pub trait ControlTarget: Send + Sync + 'static {
    /// State and counters of everything that is served.
    ///
    /// # Errors
    /// [`ControlError::Stopped`].
    fn status(&self) -> Result<Report, ControlError>;

    /// Changes the mode of a volume.
    ///
    /// # Errors
    /// No such volume, or the daemon is stopping.
    fn set_mode(&self, volume: &str, mode: ModeWord) -> Result<(), ControlError>;

    /// Begins to write all dirty blocks of a volume back.
    ///
    /// # Errors
    /// No such volume, or the daemon is stopping.
    fn drain(&self, volume: &str) -> Result<(), ControlError>;

    /// Keeps nothing that is read of a volume for a while; no time ends that.
    ///
    /// # Errors
    /// No such volume, or the daemon is stopping.
    fn pause_caching(&self, volume: &str, span: Duration) -> Result<(), ControlError>;

    /// Takes over the size of a volume's origin, which was extended.
    ///
    /// # Errors
    /// No such volume, an origin that shrank, a device that does not answer in time, or the daemon is stopping.
    fn resize(&self, volume: &str) -> Result<Resized, ControlError>;

    /// Begins to use more of a cache device, the only one or that of a path: this many bytes of a cache file, which is extended, or all
    /// that it has. Or finds what is wrong with that, and changes nothing.
    ///
    /// # Errors
    /// No such device, one that cannot grow like this, or does not answer in time, or the daemon is stopping.
    fn grow(
        &self,
        device: Option<&str>,
        size_bytes: Option<u64>,
        extent: ChangeExtent,
    ) -> Result<Growing, ControlError>;

    /// Begins to replace a cache device by another one.
    ///
    /// # Errors
    /// No such device, another one that cannot take over, or is not ready in time, or the daemon is stopping.
    fn replace(&self, order: &ReplacementOrder) -> Result<Replacing, ControlError>;

    /// Serves the volumes of a cache device without it. May take as long as dirty blocks take to be written back.
    ///
    /// # Errors
    /// It stays: no such device, one whose blocks cannot be written back, or the daemon is stopping.
    fn leave_out(&self, order: &LeaveOutOrder) -> Result<LeftOut, ControlError>;

    /// Begins to record what a volume is asked for; the recording ends when it is dropped.
    ///
    /// # Errors
    /// No such volume, too many recordings, or the daemon is stopping.
    fn record(&self, volume: &str) -> Result<TitledRecording, ControlError>;

    /// Serves one more volume. May take as long as its origin takes to answer. Returns a hint if the next start does not serve it.
    ///
    /// # Errors
    /// It cannot be served, and nothing was changed.
    fn add(&self, volume: &VolumeToAdd) -> Result<Option<String>, ControlError>;

    /// Serves a volume no longer. May take as long as dirty blocks take to be written back.
    ///
    /// # Errors
    /// It stays.
    fn remove(&self, volume: &str, clients: Clients, dirty: DirtyFate) -> Result<Removed, ControlError>;

    /// Serves what the configuration file says by now, or tells what that would change. May take as long as dirty blocks take to be
    /// written back.
    ///
    /// # Errors
    /// Something cannot change, and nothing was changed; the file is wrong; or the daemon is stopping.
    fn reload(&self, extent: ReloadExtent) -> Result<Reloaded, ControlError>;

    /// Begins a clean stop.
    ///
    /// # Errors
    /// [`ControlError::Stopped`].
    fn stop(&self) -> Result<(), ControlError>;
}

/// How far a change goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeExtent {
    /// It is made.
    All,
    /// It is only said what would be done.
    CheckOnly,
}

/// How far a reload goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadExtent {
    /// What is different is done.
    All,
    /// It is told.
    DifferenceOnly,
}

/// Why a daemon does not do what it was told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    /// No volume has the name.
    #[error("there is no volume `{name}` here; there is {}", known.join(", "))]
    NoVolume {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The daemon is on its way out.
    #[error("the daemon is stopping")]
    Stopped,
    /// What it was told, or its configuration file, is wrong in itself.
    #[error("{0}")]
    Wrong(String),
    /// The operation is still running, in a sentence.
    #[error("{0}")]
    Running(String),
    /// Everything else, in a sentence.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests;
