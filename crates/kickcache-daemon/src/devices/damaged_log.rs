//! The remedy for a cache device with a damaged part of the log.

use std::path::Path;

use kickcache_engine::error::Error;

use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;

/// The remedy, to follow "; "; `None` if the error is not about a damaged log.
pub fn damaged_log(error: &Error, path: &Path, state: &StatePlace) -> Option<String> {
    let again = match error {
        Error::Rotted { .. } => "",
        Error::Unreadable { .. } => "start again, as the device may do better, or ",
        Error::NoSuperblock { .. }
        | Error::Version { .. }
        | Error::Superblock { .. }
        | Error::Growth { .. }
        | Error::Replaced { .. }
        | Error::Incomplete { .. }
        | Error::DeviceSize { .. }
        | Error::Volume { .. }
        | Error::Recovery { .. }
        | Error::Redo { .. } => return None,
    };
    let check = || ShellCommand::new("check").path(path);
    Some(format!(
        "{again}check the findings ({}), and repair it with the intact part ({}): its help explains which data may be older then",
        check().state(state),
        check().word("--repair").word("--accept-older").state(state)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_log_is_reported_with_device_and_state_directory() {
        let state = StatePlace::Directory("/srv/notes".into());
        let rotted = Error::Rotted { what: "a batch header".into() };
        let said = damaged_log(&rotted, Path::new("/dev/fast"), &state).unwrap();
        assert!(said.contains("(kickcache check /dev/fast --state /srv/notes)"), "{said}");
        assert!(
            said.contains("(kickcache check /dev/fast --repair --accept-older --state /srv/notes)"),
            "{said}"
        );
        let other = Error::Superblock { what: "x".into() };
        assert_eq!(damaged_log(&other, Path::new("/dev/fast"), &state), None);
    }
}
