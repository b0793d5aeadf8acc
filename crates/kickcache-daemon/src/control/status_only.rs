//! A daemon that only reports its status: for a socket that other users than the daemon's may use.

use std::sync::Arc;
use std::time::Duration;

use crate::control::report::Report;
use crate::control::wire::{
    Growing, LeaveOutOrder, LeftOut, Reloaded, RemoveOrder, Removed, ReplacementOrder, Replacing, Resized,
    VolumeToAdd,
};
use crate::control::{ChangeExtent, ControlError, ControlTarget, ReloadExtent, TitledRecording};
use crate::plan::removal::UnlinkedFate;
use crate::words::ModeWord;

/// Requests of the status go to this daemon; all other requests are refused.
pub(super) struct StatusOnly(pub(super) Arc<dyn ControlTarget>);

fn refused<T>() -> Result<T, ControlError> {
    Err(ControlError::Refused("the status socket permits no changes; use the control socket".into()))
}

impl ControlTarget for StatusOnly {
    fn status(&self) -> Result<Report, ControlError> {
        self.0.status()
    }

    fn set_mode(&self, _volume: &str, _mode: ModeWord) -> Result<(), ControlError> {
        refused()
    }

    fn drain(&self, _volume: &str) -> Result<(), ControlError> {
        refused()
    }

    fn pause_caching(&self, _volume: &str, _span: Duration) -> Result<(), ControlError> {
        refused()
    }

    fn resize(&self, _volume: &str) -> Result<Resized, ControlError> {
        refused()
    }

    fn grow(
        &self,
        _device: Option<&str>,
        _size_bytes: Option<u64>,
        _extent: ChangeExtent,
    ) -> Result<Growing, ControlError> {
        refused()
    }

    fn replace(&self, _order: &ReplacementOrder) -> Result<Replacing, ControlError> {
        refused()
    }

    fn leave_out(&self, _order: &LeaveOutOrder) -> Result<LeftOut, ControlError> {
        refused()
    }

    fn record(&self, _volume: &str) -> Result<TitledRecording, ControlError> {
        refused()
    }

    fn add(&self, _volume: &VolumeToAdd) -> Result<Option<String>, ControlError> {
        refused()
    }

    fn remove(&self, _order: &RemoveOrder) -> Result<Removed, ControlError> {
        refused()
    }

    fn reload(&self, _extent: ReloadExtent) -> Result<Reloaded, ControlError> {
        refused()
    }

    fn stop(&self, _unlinked: UnlinkedFate) -> Result<(), ControlError> {
        refused()
    }
}
