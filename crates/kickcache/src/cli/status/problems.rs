//! The problems of a daemon, for monitoring: a line each, and an exit code.

use std::io::{self, Write};

use anyhow::anyhow;
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::report::{HealthWord, Report};
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_units::printable::printable_line;
use kickcache_units::{are, counted};

use super::sentences::{cache_sentence, daemon_troubles, troubles};
use crate::cli::exit::{Exit, Failure};
use crate::cli::table::Tone;

/// For how long an error of a device counts: the word in the table stays for as long as the daemon runs.
const RECENT_SECONDS: f64 = 600.0;

/// The problems, in the words of `status`.
pub(super) fn problems(report: &Report, commands: &DaemonCommands) -> Vec<String> {
    let mut problems = Vec::new();
    for cache in &report.caches {
        let is_wrong = cache.health == HealthWord::OutOfService
            || cache.silent_seconds.is_some()
            || is_recent(cache.last_error.as_ref());
        if is_wrong {
            let said = cache_sentence(cache, commands).into_iter();
            problems.push(said.map(|(text, _)| text.trim().to_owned()).collect::<Vec<_>>().join("; "));
        }
        for volume in &cache.volumes {
            let has_failed = is_recent(volume.origin_last_error.as_ref());
            let is_error =
                |text: &str| text.starts_with(&format!("{}: its origin {} had ", volume.name, volume.origin));
            let bad = troubles(cache, volume).into_iter();
            let bad = bad.filter(|(text, tone)| *tone == Tone::Bad || has_failed && is_error(text));
            problems.extend(bad.map(|(text, _)| text));
        }
    }
    problems.extend(daemon_troubles(report));
    problems
}

fn is_recent(error: Option<&LastError>) -> bool {
    error.is_some_and(|error| error.seconds_ago < RECENT_SECONDS)
}

/// Prints that, or that all is well.
pub(super) fn print(report: &Report, commands: &DaemonCommands, out: &mut dyn Write) -> io::Result<()> {
    let problems = problems(report, commands);
    if problems.is_empty() {
        let volumes = report.caches.iter().map(|cache| cache.volumes.len() as u64).sum();
        return writeln!(out, "good: {} {} served", counted(volumes, "volume"), are(volumes));
    }
    problems.iter().try_for_each(|problem| writeln!(out, "{}", printable_line(problem)))
}

/// Succeeds if there is no problem.
///
/// # Errors
/// With the exit code for problems.
pub(super) fn end(report: &Report, commands: &DaemonCommands) -> Result<(), Failure> {
    let found = problems(report, commands).len() as u64;
    match found {
        0 => Ok(()),
        _ => Err(Failure {
            exit: Exit::Unwell,
            error: anyhow!("{} {} wrong", counted(found, "thing"), are(found)),
        }),
    }
}
