//! A command that a message recommends: its words are quoted for a shell.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::control::remedy::Step;
use crate::devices::state::usual_directory;
use crate::plan::default_paths::default_control;
use crate::serve::config::StatePlace;
use crate::service_unit::ServiceUnit;
use crate::whole_path::whole_path;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellCommand(String);

impl ShellCommand {
    /// `kickcache NAME`, to be completed with words.
    pub fn new(name: &'static str) -> ShellCommand {
        ShellCommand(format!("kickcache {name}"))
    }

    /// Writes back the dirty blocks of a volume from a cache device that no daemon serves.
    pub fn drain_offline(volume: &str, cache: &Path) -> ShellCommand {
        ShellCommand::new("drain").word(volume).word("--cache").path(cache)
    }

    /// Writes dirty blocks back as [`ShellCommand::drain_offline`], even if the origin may have newer data.
    pub fn drain_older(volume: &str, cache: &Path, state: &StatePlace) -> ShellCommand {
        ShellCommand::drain_offline(volume, cache).word("--accept-older").state(state)
    }

    #[must_use]
    pub fn word(mut self, word: &str) -> ShellCommand {
        self.0.push(' ');
        self.0.push_str(&quoted(OsStr::new(word)));
        self
    }

    /// Adds a path, from the root: the user may be in another folder.
    #[must_use]
    pub fn path(mut self, path: &Path) -> ShellCommand {
        self.0.push(' ');
        self.0.push_str(&quoted(whole_path(path).as_os_str()));
        self
    }

    /// Adds ` --state DIRECTORY` for a state directory that is not the command's default in a plain shell.
    #[must_use]
    pub fn state(self, place: &StatePlace) -> ShellCommand {
        match place {
            StatePlace::Directory(directory) if usual_directory().as_ref() != Some(directory) => {
                self.word("--state").path(directory)
            }
            StatePlace::Directory(_) | StatePlace::NotKept | StatePlace::Missing => self,
        }
    }

    /// Adds ` --control PATH`, unless it is the command's default control socket.
    #[must_use]
    pub fn control(self, path: &Path) -> ShellCommand {
        if path == default_control() { self } else { self.word("--control").path(path) }
    }
}

impl fmt::Display for ShellCommand {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flag(String);

impl Flag {
    pub fn bare(name: &'static str) -> Flag {
        Flag(name.into())
    }

    /// `NAME=VALUE`, the value as a shell reads it back.
    pub fn new(name: &'static str, value: &OsStr) -> Flag {
        Flag(format!("{name}={}", quoted(value)))
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DaemonCommands {
    pub state: StatePlace,
    /// The control socket for commands; `None` for their default.
    pub control: Option<PathBuf>,
    pub service: Option<ServiceUnit>,
}

impl DaemonCommands {
    pub fn new(state: StatePlace, control: Option<PathBuf>) -> DaemonCommands {
        DaemonCommands { state, control, service: ServiceUnit::own() }
    }

    pub fn drain(&self, volume: &str) -> ShellCommand {
        self.to_daemon(ShellCommand::new("drain").word(volume).word("--wait"))
    }

    pub fn mode(&self, volume: &str, mode: &str) -> ShellCommand {
        self.to_daemon(ShellCommand::new("mode").word(volume).word(mode))
    }

    pub fn end_pause(&self, volume: &str) -> ShellCommand {
        self.to_daemon(ShellCommand::new("pause-caching").word(volume).word("--end"))
    }

    /// Replaces a cache device; the new one is the word that follows.
    pub fn replace(&self, cache: &Path) -> ShellCommand {
        self.to_daemon(ShellCommand::new("replace").word("--cache").path(cache)).word("--with")
    }

    pub fn reload(&self) -> ShellCommand {
        self.to_daemon(ShellCommand::new("reload"))
    }

    pub fn stop(&self) -> ShellCommand {
        self.to_daemon(ShellCommand::new("stop"))
    }

    pub fn to_daemon(&self, command: ShellCommand) -> ShellCommand {
        match &self.control {
            Some(control) => command.control(control),
            None => command,
        }
    }

    pub fn format(&self, cache: &Path) -> ShellCommand {
        ShellCommand::new("format").path(cache).state(&self.state)
    }

    pub fn detach(&self, cache: &Path, volume: &str) -> ShellCommand {
        ShellCommand::new("detach").path(cache).word(volume).state(&self.state)
    }

    pub fn start_step(&self) -> Step {
        match &self.service {
            Some(service) => Step::run("start the daemon", service.start()),
            None => Step::outside("start the daemon as before"),
        }
    }

    pub fn restart_step(&self) -> Step {
        match &self.service {
            Some(service) => Step::run("restart the daemon; clients are interrupted", service.restart()),
            None => Step::outside("stop the daemon, and start it again"),
        }
    }

    pub fn steps_without_answer(&self) -> Vec<Step> {
        let status = match &self.service {
            Some(service) => service.status(),
            None => self.to_daemon(ShellCommand::new("status")).to_string(),
        };
        let is_running = Step::run("see whether the daemon runs", status);
        let why = match &self.service {
            Some(service) => Step::run("read the end of its log", service.log()),
            None => Step::outside("read the end of its log"),
        };
        let start = self.start_step().only_if("it has ended");
        let answers = self.to_daemon(ShellCommand::new("status"));
        let answers = Step::run("see whether it answers", answers).only_if("it runs");
        let restart = self.restart_step().only_if("it runs and does not answer this command");
        vec![is_running, why, start, answers, restart]
    }

    pub fn leave_out(&self, cache: &Path) -> ShellCommand {
        self.to_daemon(ShellCommand::new("leave-out").word("--cache").path(cache))
    }

    /// The remedy if a cache device out of service cannot be read, so that a drain does not progress.
    pub fn if_a_drain_hangs(&self, cache: &Path) -> String {
        let leave_out = ShellCommand::new("leave-out").word("--cache").path(cache).word("--abandon-dirty");
        let leave_out = self.to_daemon(leave_out);
        let replace = self.replace(cache);
        format!(
            "only if the drain reports no progress, and with the daemon running: `{leave_out}`, then `{replace} DEVICE`, writes back the readable \
             blocks and loses the others, which then read as the origin has them, older data"
        )
    }
}

/// A word as a POSIX shell reads it back; one with bytes that cannot be shown needs a shell with `$'...'`.
pub(crate) fn quoted(word: &OsStr) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.into(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', "'\\''")),
        Some(_) | None => {
            let mut escaped = String::from("$'");
            for byte in word.as_bytes() {
                match char::from(*byte) {
                    c if c.is_ascii() && is_plain(c) => escaped.push(c),
                    _ => _ = write!(escaped, "\\{byte:03o}"),
                }
            }
            escaped + "'"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_every_word_back() {
        let words: [&[u8]; 9] = [
            b"plain-1.img",
            b"",
            b"a b",
            b"it's",
            b"a\"b`c$d\\e",
            b"(x);&|<>*?[~#!",
            "größe 1".as_bytes(),
            b"line\nbreak'\t",
            b"\xff\xfe $x",
        ];
        for word in words {
            let script = format!("printf %s {}", quoted(OsStr::from_bytes(word)));
            let output = std::process::Command::new("bash").arg("-c").arg(&script).output().unwrap();
            assert_eq!(output.stdout, word, "{script}");
            assert!(!script.contains('\n'), "{script:?}");
        }
        assert_eq!(quoted(OsStr::new("/dev/disk/by-id/nvme-a_1:2")), "/dev/disk/by-id/nvme-a_1:2");
    }

    #[test]
    fn the_default_state_directory_is_omitted() {
        let usual = StatePlace::Directory(usual_directory().unwrap());
        let other = StatePlace::Directory("/srv/my notes".into());
        let format = || ShellCommand::new("format").path(Path::new("/dev/sdb"));
        assert_eq!(format().state(&usual).to_string(), "kickcache format /dev/sdb");
        assert_eq!(format().state(&StatePlace::NotKept).to_string(), "kickcache format /dev/sdb");
        assert_eq!(format().state(&other).to_string(), "kickcache format /dev/sdb --state '/srv/my notes'");
        let stop = || ShellCommand::new("stop");
        assert_eq!(stop().control(&default_control()).to_string(), "kickcache stop");
        assert_eq!(stop().control(Path::new("/a/b")).to_string(), "kickcache stop --control /a/b");
    }

    #[test]
    fn a_path_is_printed_from_the_root() {
        let here = std::env::current_dir().unwrap().join("-x");
        let said = ShellCommand::new("check").path(Path::new("-x")).to_string();
        assert_eq!(said, format!("kickcache check {}", quoted(here.as_os_str())));
    }
}
