//! The page that `status` prints.

use std::io;
use std::time::Duration;

use kickcache_command::table::{Colour, Tone, paint};
use kickcache_command::user_text::Printer;
use kickcache_command::width::wrap;
use kickcache_daemon::control::condition::{Condition, HealthColour};
use kickcache_daemon::control::report::Report;
use kickcache_units::printable::printable_line;
use kickcache_units::show_duration;

use super::rates::Rates;
use super::sentences::{Span, cache_sentences, engines, memory_sentence, volume_sentences};
use super::tones;
use super::volumes::volume_table;

pub(super) struct Page<'a> {
    pub(super) report: &'a Report,
    pub(super) rates: Option<Rates<'a>>,
    /// [`Span::Recent`] for a repeated page.
    pub(super) span: Span,
    /// In columns.
    pub(super) width: Option<usize>,
}

impl Page<'_> {
    pub(super) fn print(&self, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
        let report = self.report;
        if report.health.colour == HealthColour::Green {
            self.line(out, &report.health.sentence, Tone::Good, colour)?;
        }
        for condition in &report.conditions {
            self.condition(out, condition, colour)?;
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

    /// Several steps are numbered.
    fn condition(&self, out: &mut dyn Printer, condition: &Condition, colour: Colour) -> io::Result<()> {
        let tone = tones::of_severity(condition.severity);
        if let ([] | [_], None) = (condition.steps.as_slice(), &condition.otherwise) {
            return self.line(out, &condition.sentence(), tone, colour);
        }
        self.line(out, &condition.situation(), tone, colour)?;
        for (number, step) in (1..).zip(&condition.steps) {
            self.line(out, &format!("  {number}. {}", step.line()), Tone::Plain, colour)?;
        }
        condition
            .otherwise
            .iter()
            .try_for_each(|text| self.line(out, &format!("  {text}"), Tone::Plain, colour))
    }

    fn line(&self, out: &mut dyn Printer, text: &str, tone: Tone, colour: Colour) -> io::Result<()> {
        paint(out, &wrap(&printable_line(text), self.width), tone, colour)?;
        writeln!(out)
    }
}
