//! Removing a device while its daemon continues.

use std::io;
use std::path::{Path, PathBuf};

use super::control_device::ControlDevice;
use super::control_threads::ControlThreads;
use super::in_use::user_of;

/// # Errors
/// A sentence.
pub(crate) fn check_unused(path: &Path) -> Result<(), String> {
    let Some(user) = user_of(path) else { return Ok(()) };
    Err(format!("it is {}, which {user} has open; {} first", path.display(), user.to_let_go()))
}

pub(crate) fn wait_until_gone(controls: &ControlThreads, path: &Path) {
    let id = path.file_name().and_then(|name| number_in(name.to_str()?));
    if let (Some(id), Ok(mut control)) = (id, controls.open()) {
        control.wait_until_gone(id);
    }
}

/// The number of the device with this name.
pub(super) fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("ublkb")?.parse().ok()
}

/// Deletes an unused device on another thread.
pub(super) fn remove_aside(controls: &ControlThreads, id: u32, path: PathBuf) {
    let work = move |control: &mut ControlDevice| {
        let alone = control.alone(|control| control.remove_later(id).map_err(|error| error.to_string()));
        alone.map_err(io::Error::other)
    };
    controls.aside(work, move |done| match done {
        Ok(_) => tracing::info!(event = "ublk_removed", "{} was removed", path.display()),
        Err(error) => {
            tracing::warn!(event = "ublk_left", "{} cannot be removed: {error}", path.display());
        }
    });
}
