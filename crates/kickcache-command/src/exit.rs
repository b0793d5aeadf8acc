//! Exit codes, and the failures that lead to them.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use kickcache_daemon::config::ConfigError;
use kickcache_daemon::control::client::ClientError;
use kickcache_daemon::error_sentence::error_sentence;
use kickcache_daemon::plan::PlanError;
use kickcache_daemon::serve::error::ServeError;

use crate::interrupt::Interrupted;

const PRINTING_MAX: Duration = Duration::from_millis(300);

/// How the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The command succeeded.
    Success,
    /// The command failed.
    Failed,
    /// An argument or the configuration file is wrong.
    Usage,
    /// No daemon answers at the control socket.
    NoDaemon,
    /// A cache device has damage that a repair mends.
    Repairable,
    /// Dirty blocks of a cache device are damaged.
    Lost,
    /// A part of the log of a cache device is or was damaged or missing.
    Suspect,
    /// A cache device is out of service, an older copy, or was bypassed with dirty blocks.
    OutOfService,
    /// A stop of a daemon was cut short, or left or lost dirty blocks.
    StoppedShort,
    /// A daemon reports a problem.
    Unwell,
    /// The operation in the daemon may still be running.
    StillRunning,
    /// The verdict of `judge` for `git bisect run`.
    Judged(u8),
    /// A command was interrupted.
    Interrupted,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NoDaemon => 3,
            Exit::Repairable => 4,
            Exit::Lost => 5,
            Exit::Suspect => 6,
            Exit::OutOfService => 7,
            Exit::StoppedShort => 8,
            Exit::Unwell => 9,
            Exit::StillRunning => 10,
            Exit::Judged(code) => code,
            Exit::Interrupted => 130,
        }
    }

    /// Ends the process of a command without cleanup, after a wait in which the command may end by itself.
    pub fn end_process(self) -> ! {
        thread::sleep(PRINTING_MAX);
        std::process::exit(self.code().into())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Arguments that cannot be used; the defect in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongArguments(pub String);

impl fmt::Display for WrongArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongArguments {}

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The error and its causes.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure with [`Exit::Usage`].
    pub fn usage(sentence: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, error: anyhow::Error::msg(sentence.into()) }
    }

    /// The error and its causes as one sentence.
    pub fn sentence(&self) -> String {
        error_sentence(self.error.as_ref())
    }

    /// Whether a write failed because the reader has closed the pipe.
    pub fn is_closed_pipe(&self) -> bool {
        let io = self.error.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        let exit = match error.downcast_ref::<ServeError>() {
            Some(error) if error.is_incomplete_stop() => Exit::StoppedShort,
            None if error.is::<Interrupted>() => Exit::Interrupted,
            None if error.is::<WrongArguments>() => Exit::Usage,
            Some(_) | None => Exit::Failed,
        };
        Failure { exit, error }
    }
}

/// For errors of writes to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let error = anyhow::Error::from(error).context("standard output cannot be written");
        Failure { exit: Exit::Failed, error }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        io::Error::from(error).into()
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        Failure { exit: Exit::Usage, error: error.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure { exit: Exit::Usage, error: error.into() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let exit = match error {
            ClientError::NoDaemon(_) => Exit::NoDaemon,
            ClientError::Path(_) | ClientError::Wrong(_) => Exit::Usage,
            ClientError::Late(_) | ClientError::Running(_) => Exit::StillRunning,
            ClientError::NotAllowed(_)
            | ClientError::AnotherDaemon(_)
            | ClientError::Io { .. }
            | ClientError::Refused(_)
            | ClientError::Answer(_) => Exit::Failed,
        };
        Failure { exit, error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let plain = anyhow!("no space left").context("cannot write c");
        assert_eq!(Failure::from(plain).sentence(), "cannot write c: no space left");
        let named: anyhow::Result<()> =
            Err(anyhow!("no space left")).context("c: cannot write (no space left)");
        assert_eq!(Failure::from(named.unwrap_err()).sentence(), "c: cannot write (no space left)");
    }

    #[test]
    fn an_incomplete_stop_has_a_code_that_prevents_a_restart() {
        let end = |error: ServeError| Failure::from(anyhow::Error::from(error)).exit;
        let left = || ServeError::LeftBehind { what: "4 blocks".into() };
        assert_eq!(end(left()), Exit::StoppedShort);
        assert_eq!(end(ServeError::GivenUp { what: "a signal ended the wait".into() }), Exit::StoppedShort);
        assert_eq!(end(ServeError::Stopped), Exit::Failed);
        let unit = include_str!("../../../contrib/kickcache.service");
        let line = format!("RestartPreventExitStatus={}", end(left()).code());
        assert!(unit.lines().any(|found| found == line), "no {line}");
    }

    #[test]
    fn a_continuing_operation_has_a_code_of_its_own() {
        for error in [ClientError::Late("/c".into()), ClientError::Running("it grows".into())] {
            assert_eq!(Failure::from(error).exit.code(), 10);
        }
    }

    #[test]
    fn a_closed_pipe_is_known() {
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_closed_pipe());
        assert!(!Failure::usage("x").is_closed_pipe());
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.sentence(), "standard output cannot be written: no storage space");
    }
}
