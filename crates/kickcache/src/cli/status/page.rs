//! The page that `status` prints.

use std::io;
use std::time::Duration;

use kickcache_daemon::control::condition::Condition;
use kickcache_daemon::control::report::Report;
use kickcache_units::printable::printable_line;
use kickcache_units::show_duration;

use super::rates::Rates;
use super::sentences::{Span, cache_sentences, engines, memory_sentence, volume_sentences};
use super::tones;
use super::volumes::volume_table;
use super::width::wrap;
use crate::cli::table::{Colour, Tone, paint};
use crate::user_text::Printer;

/// The content of the page, and its width.
pub(super) struct Page<'a> {
    pub(super) report: &'a Report,
    pub(super) rates: Option<Rates<'a>>,
    /// A repeated page shows the last seconds.
    pub(super) span: Span,
    /// Columns of the terminal, if it has some.
    pub(super) width: Option<usize>,
}

impl Page<'_> {
    pub(super) fn print(&self, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
        let report = self.report;
        self.line(out, &report.health.sentence, tones::of_health(report.health.colour), colour)?;
        for condition in listed(&report.conditions) {
            self.line(out, &condition.sentence(), tones::of_severity(condition.severity), colour)?;
        }
        writeln!(out)?;
        let uptime = show_duration(Duration::from_secs_f64(report.uptime_seconds.clamp(0.0, 1e12)));
        let (version, pid, engine) = (&report.version, report.pid, engines(report));
        let head = format!("kickcache {version}, process {pid}, up {uptime}, {engine}");
        self.line(out, &head, Tone::Plain, colour)?;
        if let Some(text) = memory_sentence(&report.memory) {
            self.line(out, &text, Tone::Plain, colour)?;
        }
        for text in report.caches.iter().flat_map(cache_sentences) {
            self.line(out, &text, Tone::Plain, colour)?;
        }
        writeln!(out)?;
        volume_table(report, self.rates.as_ref()).print_within(out, colour, self.width)?;
        for volume in report.caches.iter().flat_map(|cache| &cache.volumes) {
            writeln!(out)?;
            for text in volume_sentences(volume, self.span) {
                self.line(out, &text, Tone::Plain, colour)?;
            }
        }
        Ok(())
    }

    fn line(&self, out: &mut dyn Printer, text: &str, tone: Tone, colour: Colour) -> io::Result<()> {
        paint(out, &wrap(&printable_line(text), self.width), tone, colour)?;
        writeln!(out)
    }
}

/// The conditions, except the problem that the sentence of the health is about.
fn listed(conditions: &[Condition]) -> &[Condition] {
    match conditions {
        [first, others @ ..] if first.severity.is_problem() => others,
        all => all,
    }
}
