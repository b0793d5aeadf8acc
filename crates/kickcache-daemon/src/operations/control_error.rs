//! A server's error, converted for the control socket.

use crate::control::ControlError;
use crate::serve::error::ServeError;

pub fn control_error(error: ServeError) -> ControlError {
    match error {
        ServeError::Stopped => ControlError::Stopped,
        error @ ServeError::StillRunning { .. } => ControlError::Running(error.to_string()),
        error => ControlError::Refused(error.to_string()),
    }
}

/// The daemon is still starting.
pub fn starting() -> ControlError {
    ControlError::Refused("the daemon is still starting; try again later".into())
}
