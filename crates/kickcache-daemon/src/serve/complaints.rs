//! Lines of the log that clients, guests or the server of an origin can provoke, with a limit for each kind.

use std::fmt;

use kickcache_engine::time::Instant;
use tracing::Level;

use crate::serve::rate_limit::{LINES_MAX, RateLimit, SPAN, SuppressedKind, SuppressedLines};

/// A kind of line, for one volume or for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Complaint {
    event: &'static str,
    level: Level,
    /// The text before the number of suppressed lines; `{}` is the name of the volume.
    summary: &'static str,
    /// The volume's index; `None` if the line is about no single volume.
    volume: Option<usize>,
}

pub(crate) const NO_MEMORY: Complaint =
    Complaint::new("no_memory", Level::ERROR, "requests failed because memory is short");

impl Complaint {
    pub(crate) const fn new(event: &'static str, level: Level, summary: &'static str) -> Complaint {
        Complaint { event, level, summary, volume: None }
    }

    pub(crate) const fn about(self, volume: usize) -> Complaint {
        Complaint { volume: Some(volume), ..self }
    }
}

pub(crate) struct Complaints(RateLimit<Complaint>);

impl Default for Complaints {
    fn default() -> Complaints {
        Complaints(RateLimit::new(LINES_MAX, SPAN))
    }
}

impl Complaints {
    /// Writes a line, or counts it if there were too many of the kind.
    pub(crate) fn say(&mut self, now: Instant, complaint: Complaint, line: fmt::Arguments<'_>) {
        if self.0.allows(now, &complaint) {
            log(complaint, line);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    /// Logs the numbers of suppressed lines of the spans that are over.
    pub(crate) fn tell_held_back<'a>(&mut self, now: Instant, name: impl Fn(usize) -> &'a str) {
        while let Some(SuppressedKind { kind: complaint, held }) = self.0.poll_held(now) {
            tell(complaint, held, &name);
        }
    }

    /// Logs the numbers of suppressed lines of all spans.
    pub(crate) fn tell_all_held_back<'a>(&mut self, now: Instant, name: impl Fn(usize) -> &'a str) {
        for SuppressedKind { kind: complaint, held } in self.0.end(now) {
            tell(complaint, held, &name);
        }
    }
}

fn tell<'a>(complaint: Complaint, held: SuppressedLines, name: impl Fn(usize) -> &'a str) {
    let summary = complaint.summary.replace("{}", complaint.volume.map_or("?", name));
    log(complaint, format_args!("{summary}: {held}"));
}

fn log(Complaint { event, level, .. }: Complaint, line: fmt::Arguments<'_>) {
    match level {
        Level::ERROR => tracing::error!(event, "{line}"),
        Level::WARN => tracing::warn!(event, "{line}"),
        _ => tracing::info!(event, "{line}"),
    }
}
