//! A device that was made or taken over, and is not served yet.

use super::control_threads::ControlThreads;
use super::device::{Acquisition, UblkDevice};
use super::place::UblkPlace;
use super::process;
use super::removal::remove_aside;
use crate::driver::io_engine::IoEngine;
use crate::serve::error::ServeError;
use crate::serve::known_volume::KnownVolume;

/// A newly created device is deleted again if this is dropped.
pub(crate) struct OpenUblk {
    device: Option<UblkDevice>,
    controls: ControlThreads,
}

impl OpenUblk {
    /// # Errors
    /// [`ServeError::Volume`].
    pub(crate) fn open(
        controls: &ControlThreads,
        place: &UblkPlace,
        volume: &KnownVolume,
        io_engine: IoEngine,
    ) -> Result<OpenUblk, ServeError> {
        let name = &volume.identity.name;
        let refuse =
            |what: String| ServeError::Volume { name: name.clone(), what: format!("--ublk: {what}") };
        if io_engine == IoEngine::Threads {
            return Err(refuse(
                "ublk needs io_uring, but the I/O engine is threads; use --io-engine io_uring".into(),
            ));
        }
        let mut control = controls.open().map_err(refuse)?;
        process::keep_memory();
        let device = UblkDevice::open(&mut control, place, volume).map_err(refuse)?;
        Ok(OpenUblk { device: Some(device), controls: controls.clone() })
    }

    pub(super) fn into_device(mut self) -> UblkDevice {
        self.device.take().expect("it is used once")
    }
}

impl Drop for OpenUblk {
    fn drop(&mut self) {
        let Some(device) = self.device.take() else { return };
        let (id, begun, path) = (device.id, device.begun, device.path());
        drop(device);
        if begun == Acquisition::Added {
            remove_aside(&self.controls, id, path);
        }
    }
}
