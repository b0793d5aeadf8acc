//! The reasons for a missing verdict, and the exit code of each.

use std::fmt;

use crate::judge::side::Side;

/// Exit code that makes `git bisect run` skip this commit.
pub const SKIP: u8 = 125;
/// The first exit code at which `git bisect run` stops; signals are added to it.
pub const STOP: u8 = 128;

/// Why a run gave no number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunFailure {
    Start(String),
    /// A signal ended the command, or the exit code of the command stands for a signal.
    Signal {
        signal: u8,
        what: String,
    },
    /// The command failed, or gave no number that can be compared.
    Failed(String),
    /// This program was interrupted by this signal; the end of its output counts as SIGHUP.
    Interrupted(u8),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoVerdict {
    /// This commit cannot be judged; another one may.
    Skip(String),
    /// The comparison stopped for a reason that may not depend on the commit.
    Stop {
        /// The exit code, 128 or more.
        code: u8,
        why: String,
    },
}

impl NoVerdict {
    pub fn stop(why: impl Into<String>) -> NoVerdict {
        NoVerdict::Stop { code: STOP, why: why.into() }
    }

    pub(crate) fn of(side: Side, failure: RunFailure) -> NoVerdict {
        match failure {
            RunFailure::Start(what) => NoVerdict::stop(format!("{side} cannot be started: {what}")),
            RunFailure::Signal { signal, what } => NoVerdict::Stop {
                code: STOP.saturating_add(signal),
                why: format!("{side} died by signal {signal}{what}"),
            },
            RunFailure::Failed(what) => match side {
                Side::Good => NoVerdict::stop(format!("{side} failed: {what}")),
                Side::New => NoVerdict::Skip(format!("{side} failed: {what}")),
            },
            RunFailure::Interrupted(signal) => NoVerdict::Stop {
                code: STOP.saturating_add(signal),
                why: format!("interrupted by signal {signal}; the command that ran was ended"),
            },
        }
    }

    pub fn code(&self) -> u8 {
        match self {
            NoVerdict::Skip(_) => SKIP,
            NoVerdict::Stop { code, .. } => *code,
        }
    }
}

impl fmt::Display for NoVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoVerdict::Skip(why) | NoVerdict::Stop { why, .. } => f.write_str(why),
        }
    }
}

impl std::error::Error for NoVerdict {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failed_commits_are_skipped_by_a_bisection() {
        let code = |side, failure: &RunFailure| NoVerdict::of(side, failure.clone()).code();
        let failed = RunFailure::Failed("x".into());
        assert_eq!((code(Side::New, &failed), code(Side::Good, &failed)), (SKIP, STOP));
        let died = RunFailure::Signal { signal: 9, what: String::new() };
        assert_eq!((code(Side::New, &died), code(Side::Good, &died)), (137, 137));
        assert_eq!(code(Side::New, &RunFailure::Start("x".into())), STOP);
        assert_eq!(code(Side::New, &RunFailure::Interrupted(2)), 130);
    }
}
