//! `kickcache status`: shows the served volumes of a daemon and their state.

mod curve;
mod page;
mod problems;
mod rates;
mod selection;
mod sentences;
mod tones;
mod volumes;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::Context;
use kickcache_command::closed_output::OutputWatch;
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::options::{ControlOption, parse_interval};
use kickcache_command::table::Colour;
use kickcache_command::user_text::{Printer, UserText};
use kickcache_command::width::{first_lines, terminal_height, terminal_width};
use kickcache_daemon::control::report::Report;

use crate::cli::status::page::Page;
use crate::cli::status::rates::Rates;
use crate::cli::status::sentences::Span;

const EXAMPLES: &str = "\
Examples:
  kickcache status
  kickcache status vm1                 one volume, its cache device and its conditions
  kickcache status --curve             hit ratios of caches of other sizes
  kickcache status --watch 5            repeat every 5 seconds, with the rates of this interval
  kickcache status --check              problems only, and an exit code: for monitoring
  kickcache status --json | jq '.caches[].volumes[] | {name, dirty_bytes}'

Columns (docs/reference/status.md explains every figure):
  HITS       hit ratio of reads, in blocks of 4 KiB; since the start of the daemon
  READS/S    and other rates: over the last 30 to 60 seconds
With --watch, both are since the last sample. `instead of` is the mean time of reads from
the origin. Columns that do not fit into the terminal (or $COLUMNS) are dropped. --json --watch
prints one line of JSON a sample.

Exit codes:
  0  the daemon answered; with --check, there is no problem
  1  it answered with an error
  2  an argument is wrong
  3  no daemon answers
  9  with --check: there is a condition with the severity warning or error (docs/reference/status.md
     lists them), such as a cache device out of service, or an origin that is away";

/// Show the volumes of a daemon: modes, hit ratios, rates, errors
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Only this volume, its cache device and the conditions that concern it
    volume: Option<String>,
    /// Show the hit ratios of LRU caches of other sizes, with the error of the estimate
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    curve: bool,
    /// For monitoring: print only problems, and exit with code 9 if there is any
    #[arg(long, conflicts_with_all = ["curve", "watch"])]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Repeat at this interval, 0.1s to 1d; a number without a unit is in seconds [default: 2]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2", value_parser = parse_interval)]
    watch: Option<Duration>,
    #[command(flatten)]
    control: ControlOption,
}

struct Sample {
    report: Report,
    at: Instant,
}

impl StatusArgs {
    pub(crate) fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        let mut before = None;
        // As a failed write to a closed pipe, a closed output ends the command with success.
        let watch = self.watch.map(|_| OutputWatch::start(|| Exit::Success.end_process()));
        let _output = watch.transpose().context("cannot start a thread")?;
        loop {
            let mut report = self.control.client().status()?;
            if let Some(volume) = &self.volume {
                selection::select(&mut report, volume)?;
            }
            let now = Sample { report, at: Instant::now() };
            self.show(out, &now, before.as_ref())?;
            out.flush()?;
            if self.check {
                return problems::end(&now.report);
            }
            let Some(pause) = self.watch else { return Ok(()) };
            before = Some(now);
            std::thread::sleep(pause);
        }
    }

    fn show(&self, out: &mut dyn Printer, now: &Sample, before: Option<&Sample>) -> Result<(), Failure> {
        if self.json && self.watch.is_some() {
            return Ok(writeln!(out, "{}", serde_json::to_string(&now.report)?)?);
        }
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&now.report)?)?);
        }
        if self.check {
            return Ok(problems::print(&now.report, out)?);
        }
        if self.curve {
            return Ok(curve::print(&now.report, out, Colour::for_stdout())?);
        }
        let rates =
            before.map(|before| Rates { before: &before.report, seconds: now.at.duration_since(before.at) });
        let span = if self.watch.is_some() { Span::Recent } else { Span::SinceStart };
        let page = Page { report: &now.report, rates, span, width: terminal_width() };
        if self.watch.is_none() || !io::stdout().is_terminal() {
            return Ok(page.print(out, Colour::for_stdout())?);
        }
        let mut text = UserText::new(Vec::new());
        page.print(&mut text, Colour::for_stdout())?;
        let text = text.into_escaped()?.map(|text| first_lines(text, terminal_height(), page.width));
        // Home, and clear the rest of the screen.
        out.control("\x1b[H\x1b[J")?;
        Ok(out.escaped(&text)?)
    }
}

#[cfg(test)]
mod documented_keys;
#[cfg(test)]
pub(super) mod tests;
