//! The page that `status` prints.

use std::io;
use std::time::Duration;

use kickcache_daemon::control::report::Report;
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_units::printable::printable_line;
use kickcache_units::show_duration;

use super::rates::Rates;
use super::sentences::{Span, cache_sentence, daemon_troubles, engines, memory_sentence, volume_sentences};
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
    /// For the daemon of this report.
    pub(super) commands: DaemonCommands,
}

impl Page<'_> {
    pub(super) fn print(&self, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
        let report = self.report;
        let uptime = show_duration(Duration::from_secs_f64(report.uptime_seconds.clamp(0.0, 1e12)));
        let (version, pid, engine) = (&report.version, report.pid, engines(report));
        let head = format!("kickcache {version}, process {pid}, up {uptime}, {engine}");
        self.line(out, &head, Tone::Plain, colour)?;
        if let Some((text, tone)) = memory_sentence(&report.memory) {
            self.line(out, &text, tone, colour)?;
        }
        for cache in &report.caches {
            writeln!(out)?;
            for (text, tone) in cache_sentence(cache, &self.commands) {
                self.line(out, &text, tone, colour)?;
            }
        }
        writeln!(out)?;
        volume_table(report, self.rates.as_ref()).print_within(out, colour, self.width)?;
        for cache in &report.caches {
            for volume in &cache.volumes {
                writeln!(out)?;
                for (text, tone) in volume_sentences(cache, volume, self.span) {
                    self.line(out, &text, tone, colour)?;
                }
            }
        }
        let troubles = daemon_troubles(report);
        if !troubles.is_empty() {
            writeln!(out)?;
        }
        troubles.iter().try_for_each(|text| self.line(out, text, Tone::Bad, colour))
    }

    fn line(&self, out: &mut dyn Printer, text: &str, tone: Tone, colour: Colour) -> io::Result<()> {
        paint(out, &wrap(&printable_line(text), self.width), tone, colour)?;
        writeln!(out)
    }
}
