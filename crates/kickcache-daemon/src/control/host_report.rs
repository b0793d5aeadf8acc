//! The machine of a daemon.

use serde::{Deserialize, Serialize};

use crate::control::remedy::Step;
use crate::own_user::own_user_name;
use crate::shell_command::DaemonCommands;

/// Where the commands in messages of a daemon are to be run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostReport {
    pub name: String,
    /// The user who runs commands for the daemon.
    pub user: String,
    pub steps_without_answer: Vec<Step>,
}

impl HostReport {
    pub fn own(commands: &DaemonCommands) -> HostReport {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_system_service = commands.service.as_ref().is_some_and(|service| service.is_of_system());
        // The manager of a system service is root's, also if the daemon runs as another user.
        let user = if is_system_service { "root".into() } else { own_user_name() };
        HostReport { name, user, steps_without_answer: commands.steps_without_answer() }
    }
}
