//! The problems of a daemon, for monitoring.

use std::io::{self, Write};

use anyhow::anyhow;
use kickcache_command::exit::{Exit, Failure};
use kickcache_daemon::control::condition::Condition;
use kickcache_daemon::control::report::Report;
use kickcache_units::printable::printable_line;
use kickcache_units::{are, counted};

fn problems(report: &Report) -> impl Iterator<Item = &Condition> {
    report.conditions.iter().filter(|condition| condition.severity.is_problem())
}

pub(super) fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if problems(report).next().is_none() {
        let volumes = report.caches.iter().map(|cache| cache.volumes.len() as u64).sum();
        return writeln!(out, "good: {} {} served", counted(volumes, "volume"), are(volumes));
    }
    problems(report).try_for_each(|problem| writeln!(out, "{}", printable_line(&problem.sentence())))
}

/// # Errors
/// If there is a problem.
pub(super) fn end(report: &Report) -> Result<(), Failure> {
    let found = problems(report).count() as u64;
    match found {
        0 => Ok(()),
        _ => Err(Failure {
            exit: Exit::Unwell,
            error: anyhow!("{} {} wrong", counted(found, "thing"), are(found)),
        }),
    }
}
