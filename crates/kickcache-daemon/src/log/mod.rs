//! The daemon's log: each entry has the stable name of its event; docs/reference/logs.md lists them.

mod entry;
mod journal;
mod line_format;
pub(crate) mod outlet;

#[cfg(test)]
mod documented_events;
#[cfg(test)]
pub(crate) mod logged;

use std::io::{self, IsTerminal};

use kickcache_units::printable::printable_line;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::debug_fn;

use crate::log::journal::Journal;
use crate::log::line_format::{Encoded, LineFormat};
use crate::log::outlet::Outlet;
use crate::plan::log_plan::{LogFormat, LogLevel, LogPlan};

/// # Errors
/// If there can be no thread that writes it.
pub(crate) fn start_log(plan: LogPlan) -> io::Result<Outlet> {
    let journal = Journal::of_stderr();
    let (format, outlet) = match (plan.format, journal) {
        (LogFormat::Json, _) => (LineFormat::Json, Outlet::to_stderr(LineFormat::Json)?),
        (LogFormat::Text, Journal::Socket(socket)) => {
            (LineFormat::Journal, Outlet::start(socket, LineFormat::Journal)?)
        }
        // The journal adds times, so lines need none.
        (LogFormat::Text, Journal::Text) => (LineFormat::Untimed, Outlet::to_stderr(LineFormat::Untimed)?),
        (LogFormat::Text, Journal::Absent) => (LineFormat::Timed, Outlet::to_stderr(LineFormat::Timed)?),
    };
    let log = tracing_subscriber::fmt().with_writer(outlet.clone()).with_max_level(filter(plan.level));
    let _ = match format {
        LineFormat::Timed | LineFormat::Untimed => {
            let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            // The other fields repeat the content of the sentence.
            let sentence = debug_fn(|writer, field, value| match field.name() {
                "message" => write!(writer, "{}", printable_line(&format!("{value:?}"))),
                _ => Ok(()),
            });
            let log = log.with_target(false).with_ansi(ansi).fmt_fields(sentence);
            if format == LineFormat::Timed { log.try_init() } else { log.without_time().try_init() }
        }
        LineFormat::Json | LineFormat::Journal => log.event_format(Encoded(format)).try_init(),
    };
    Ok(outlet)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}
