//! A device goes while its daemon goes on.

use std::fmt::Display;
use std::io;
use std::path::Path;

use super::control::{Control, Removal};
use super::controls::Controls;
use super::in_use::user_of;

/// Refuses a device that somebody has open.
///
/// # Errors
/// A sentence.
pub(crate) fn check_unused(path: &Path) -> Result<(), String> {
    let Some(user) = user_of(path) else { return Ok(()) };
    Err(format!("it is {}, which {user} has open; {} first", path.display(), user.to_let_go()))
}

/// Waits until a device that is being removed is gone, or somebody keeps it for long.
pub(crate) fn wait_until_gone(controls: &Controls, path: &Path) {
    let name = path.to_str().and_then(|path| path.strip_prefix("/dev/ublkb"));
    let id = name.and_then(|digits| digits.parse().ok());
    if let (Some(id), Ok(mut control)) = (id, controls.open()) {
        control.wait_until_gone(id);
    }
}

/// Deletes a device that nobody uses; its server has yet to let go of it.
pub(super) fn remove(control: &mut Control, id: u32) -> io::Result<Removal> {
    let alone = control.alone(|control| control.remove_later(id).map_err(|error| error.to_string()));
    alone.map_err(io::Error::other)
}

/// Says what became of that.
pub(super) fn tell_removed(path: &Path, done: Result<Removal, impl Display>) {
    let path = path.display();
    match done {
        Ok(_) => tracing::info!(event = "ublk_removed", "{path} was removed"),
        Err(error) => tracing::warn!(event = "ublk_left", "{path} cannot be removed: {error}"),
    }
}
