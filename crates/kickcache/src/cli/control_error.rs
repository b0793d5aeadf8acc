//! What a server says of a refusal, for the control socket.

use kickcache_daemon::control::ControlError;
use kickcache_daemon::serve::error::ServeError;

/// Why a server refuses, for who asked.
pub(super) fn control_error(error: ServeError) -> ControlError {
    match error {
        ServeError::Stopped => ControlError::Stopped,
        error @ ServeError::StillRunning { .. } => ControlError::Running(error.to_string()),
        error => ControlError::Refused(error.to_string()),
    }
}

/// Nothing is served yet.
pub(super) fn starting() -> ControlError {
    ControlError::Refused("the daemon is still starting; ask again later".into())
}
