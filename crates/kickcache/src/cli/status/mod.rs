//! `kickcache status`: what a daemon serves and how it does.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::cli::exit::Failure;
use crate::cli::options::{ControlOption, parse_seconds};
use crate::cli::table::{Align, Cell, Colour, Table, Tone, paint};
use crate::control::report::{CacheReport, HealthWord, Report, VolumeReport};
use crate::units::{show_bytes, show_duration, show_rate, show_ratio};

const EXAMPLES: &str = "\
Examples:
  kickcache status
  kickcache status --watch 5            again every 5 seconds, with rates
  kickcache status --json | jq '.caches[].volumes[] | {name, dirty_bytes}'

The hit ratio counts 4 KiB blocks that reads found in the cache: since the daemon started, or with
--watch since the last sample. With --json --watch there is one line of JSON a sample.";

/// Show what a daemon serves and how it does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show it again and again, every SECONDS [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_seconds)]
    watch: Option<Duration>,
    #[command(flatten)]
    control: ControlOption,
}

/// A report and when it came.
struct Sample {
    report: Report,
    at: Instant,
}

impl StatusArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut before = None;
        loop {
            let now = Sample { report: self.control.client().status()?, at: Instant::now() };
            self.show(out, &now, before.as_ref())?;
            out.flush()?;
            let Some(pause) = self.watch else { return Ok(()) };
            before = Some(now);
            std::thread::sleep(pause);
        }
    }

    fn show(&self, out: &mut dyn Write, now: &Sample, before: Option<&Sample>) -> Result<(), Failure> {
        if self.json && self.watch.is_some() {
            return Ok(writeln!(out, "{}", serde_json::to_string(&now.report)?)?);
        }
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&now.report)?)?);
        }
        if self.watch.is_some() && io::stdout().is_terminal() {
            // Home, and clear what is below.
            write!(out, "\x1b[H\x1b[J")?;
        }
        let rates =
            before.map(|before| Rates { before: &before.report, seconds: now.at.duration_since(before.at) });
        Ok(print_report(out, &now.report, rates.as_ref(), Colour::for_stdout())?)
    }
}

/// What rates are counted from.
struct Rates<'a> {
    before: &'a Report,
    seconds: Duration,
}

impl Rates<'_> {
    fn volume(&self, name: &str) -> Option<&VolumeReport> {
        self.before.caches.iter().flat_map(|cache| &cache.volumes).find(|volume| volume.name == name)
    }

    fn per_second(&self, now: u64, before: u64) -> String {
        show_rate(now.saturating_sub(before) as f64 / self.seconds.as_secs_f64().max(1e-3))
    }
}

fn print_report(
    out: &mut dyn Write,
    report: &Report,
    rates: Option<&Rates<'_>>,
    colour: Colour,
) -> io::Result<()> {
    let uptime = show_duration(Duration::from_secs_f64(report.uptime_seconds.clamp(0.0, 1e12)));
    let (version, pid, engine) = (&report.version, report.pid, &report.io_engine);
    writeln!(out, "kickcache {version}, process {pid}, up {uptime}, {engine}")?;
    for cache in &report.caches {
        writeln!(out)?;
        print_cache(out, cache, colour)?;
    }
    writeln!(out)?;
    volume_table(report, rates).print(out, colour)
}

fn print_cache(out: &mut dyn Write, cache: &CacheReport, colour: Colour) -> io::Result<()> {
    let (word, tone) = match cache.health {
        HealthWord::Good => ("good", Tone::Good),
        HealthWord::OutOfService => ("OUT OF SERVICE: every request goes to the origin", Tone::Bad),
    };
    let trouble = match (cache.silent_seconds, &cache.last_error) {
        (Some(seconds), _) => format!(", {}", show_silence(seconds)),
        (None, Some(error)) => format!(", {}", error.show()),
        (None, None) => String::new(),
    };
    let trouble = paint(&trouble, Tone::Warning, colour);
    let capacity = show_bytes(cache.capacity_bytes);
    let free = show_ratio(cache.free_segments, cache.segments);
    let memory = show_bytes(cache.memory_bytes);
    writeln!(
        out,
        "cache device {}: {}{trouble}; {capacity}, {free} of the segments free; tables take {memory} of memory",
        cache.device,
        paint(word, tone, colour)
    )
}

fn volume_table(report: &Report, rates: Option<&Rates<'_>>) -> Table {
    let mut columns = vec![
        ("VOLUME", Align::Left),
        ("MODE", Align::Left),
        ("SIZE", Align::Right),
        ("CACHED", Align::Right),
        ("DIRTY", Align::Right),
        ("HIT RATIO", Align::Right),
        ("FILL WINDOW", Align::Right),
    ];
    if rates.is_some() {
        columns.extend([("READS/S", Align::Right), ("WRITES/S", Align::Right)]);
    }
    columns.push(("HEALTH", Align::Left));
    let mut table = Table::new(&columns);
    for cache in &report.caches {
        cache.volumes.iter().for_each(|volume| table.row(volume_row(cache, volume, rates)));
    }
    table
}

fn volume_row(cache: &CacheReport, volume: &VolumeReport, rates: Option<&Rates<'_>>) -> Vec<Cell> {
    let before =
        rates.and_then(|rates| rates.volume(&volume.name)).map(|volume| volume.counters).unwrap_or_default();
    let now = &volume.counters;
    let hits = now.hit_blocks.saturating_sub(before.hit_blocks);
    let misses = now.miss_blocks.saturating_sub(before.miss_blocks);
    let mut row = vec![
        Cell::new(&volume.name),
        Cell::new(volume.mode.as_str()),
        Cell::new(show_bytes(volume.size_bytes)),
        Cell::new(show_bytes(volume.cached_bytes)),
        Cell::new(show_bytes(volume.dirty_bytes)),
        Cell::new(show_ratio(hits, hits + misses)),
        Cell::new(show_bytes(volume.fill_window_bytes)),
    ];
    if let Some(rates) = rates {
        row.push(Cell::new(rates.per_second(now.reads, before.reads)));
        row.push(Cell::new(rates.per_second(now.writes, before.writes)));
    }
    row.push(volume_health(cache, volume));
    row
}

fn volume_health(cache: &CacheReport, volume: &VolumeReport) -> Cell {
    let counters = &volume.counters;
    if counters.damaged_blocks > 0 {
        return Cell::toned(format!("DAMAGED: {} dirty blocks are lost", counters.damaged_blocks), Tone::Bad);
    }
    if let Some(seconds) = volume.origin_silent_seconds {
        return Cell::toned(format!("origin: {}", show_silence(seconds)), Tone::Bad);
    }
    if let Some(error) = &volume.origin_last_error {
        return Cell::toned(format!("origin: {}", error.show()), Tone::Warning);
    }
    if cache.health == HealthWord::OutOfService {
        return Cell::toned("without cache", Tone::Warning);
    }
    if counters.healed_blocks > 0 {
        return Cell::toned(format!("{} blocks healed", counters.healed_blocks), Tone::Warning);
    }
    Cell::toned("good", Tone::Good)
}

fn show_silence(seconds: f64) -> String {
    let span = show_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e12)));
    format!("SILENT: it has completed nothing for {span}")
}

#[cfg(test)]
mod tests;
