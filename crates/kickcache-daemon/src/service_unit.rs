//! The service of systemd that this process belongs to.

use std::{env, fs};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceUnit {
    /// Without `.service`.
    name: String,
    manager: Manager,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manager {
    System,
    User,
}

impl ServiceUnit {
    /// The service of this process, if systemd started it as one and waits for its notifications.
    pub fn own() -> Option<ServiceUnit> {
        env::var_os("NOTIFY_SOCKET")?;
        ServiceUnit::of_groups(&fs::read_to_string("/proc/self/cgroup").ok()?)
    }

    /// The service in the text of a file `/proc/PID/cgroup`, if there is one.
    pub(crate) fn of_groups(text: &str) -> Option<ServiceUnit> {
        let is_of_systemd = |line: &&str| line.starts_with("0::") || line.contains(":name=systemd:");
        let path = text.lines().filter(is_of_systemd).find_map(|line| line.split_once(":/"))?.1;
        let name = path.rsplit('/').next()?.strip_suffix(".service")?;
        let manager = if path.contains("/user@") { Manager::User } else { Manager::System };
        Some(ServiceUnit { name: name.into(), manager })
    }

    /// Whether it belongs to the manager of the machine, not of a user.
    pub fn is_of_system(&self) -> bool {
        self.manager == Manager::System
    }

    pub fn start(&self) -> String {
        self.systemctl("start")
    }

    pub fn restart(&self) -> String {
        self.systemctl("restart")
    }

    pub fn status(&self) -> String {
        self.systemctl("status")
    }

    pub fn log(&self) -> String {
        match self.manager {
            Manager::System => format!("journalctl --unit {} --lines 50", self.name),
            Manager::User => format!("journalctl --user-unit {} --lines 50", self.name),
        }
    }

    fn systemctl(&self, verb: &str) -> String {
        match self.manager {
            Manager::System => format!("systemctl {verb} {}", self.name),
            Manager::User => format!("systemctl --user {verb} {}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_names_the_service() {
        let start = |groups: &str| ServiceUnit::of_groups(groups).map(|unit| unit.start());
        let cases = [
            ("0::/system.slice/kickcache.service\n", Some("systemctl start kickcache")),
            (
                "4:memory:/x.service\n1:name=systemd:/system.slice/kickcache@a.service\n",
                Some("systemctl start kickcache@a"),
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/kick.service\n",
                Some("systemctl --user start kick"),
            ),
            ("0::/user.slice/user-0.slice/session-1.scope\n", None),
            ("0::/\n", None),
            ("", None),
        ];
        for (groups, expected) in cases {
            assert_eq!(start(groups).as_deref(), expected, "{groups}");
        }
    }
}
