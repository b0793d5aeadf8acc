//! The table of `kickcache simulate run` and `compare`.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, KEEP, Table};
use kickcache_command::user_text::Printer;
use kickcache_command::width::terminal_width;
use kickcache_model::result::{Pacing, RunResult};
use kickcache_units::show_bytes;

use crate::cli::simulate::compared_runs::ComparedRuns;
use crate::cli::simulate::setup_names::SetupNames;

/// A column: its heading, its alignment, its rank when columns are dropped, and its value for the runs of a
/// cache.
type Column<'a> = (&'static str, Align, u8, Box<dyn Fn(&ComparedRuns<'_>) -> String + 'a>);

/// Whether caches are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ratios {
    /// Ratios to the first cache.
    ToFirst,
    /// No ratios: the first cache may be in another shard.
    None,
}

pub(crate) fn print(
    names: &SetupNames,
    kinds: &[ComparedRuns<'_>],
    ratios: Ratios,
    out: &mut dyn Printer,
) -> io::Result<()> {
    let has_cache = kinds.iter().any(|kind| kind.size.is_some());
    let cache = if has_cache { format!("; cache device: {}", names.cache) } else { String::new() };
    writeln!(out, "{}\norigin: {}{cache}\n", names.load, names.origin)?;
    let columns = columns(kinds, ratios);
    let headings: Vec<(&str, Align, u8)> =
        columns.iter().map(|column| (column.0, column.1, column.2)).collect();
    let mut table = Table::ranked(&headings);
    for kind in kinds {
        table.row(columns.iter().map(|column| Cell::new((column.3)(kind))).collect());
    }
    table.print_within(out, Colour::for_stdout(), terminal_width())
}

/// The cell of a missing figure.
const NOTHING: &str = "-";

fn columns<'a>(kinds: &'a [ComparedRuns<'_>], ratios: Ratios) -> Vec<Column<'a>> {
    // The rate of a load at fixed times is no measure of the devices.
    let is_open = kinds.iter().flat_map(|kind| kind.runs).all(|run| run.pacing == Pacing::Open);
    let compared: fn(&RunResult) -> f64 =
        if is_open { |run| run.latencies().mean() } else { RunResult::iops };
    let measure = kinds.first().map_or(0.0, |kind| kind.median(compared));
    let is_repeated = kinds.iter().any(|kind| kind.runs.len() > 1);
    let has_cache = kinds.iter().any(|kind| kind.size.is_some());
    let mut columns: Vec<Column<'a>> = vec![
        ("CACHE", Align::Left, KEEP, Box::new(|kind| kind.cache.name().into())),
        (
            "SIZE",
            Align::Right,
            KEEP,
            Box::new(|kind| optional(kind.size.map(|size| show_bytes(size.bytes())))),
        ),
        ("IOPS", Align::Right, KEEP, Box::new(|kind| format!("{:.0}", kind.median(RunResult::iops)))),
    ];
    if kinds.len() > 1 && ratios == Ratios::ToFirst {
        let ratio = move |kind: &ComparedRuns<'_>| kind.median(compared) / measure;
        let show = move |kind: &ComparedRuns<'_>| {
            optional(Some(ratio(kind)).filter(|ratio| ratio.is_finite()).map(two))
        };
        let heading = if is_open { "LATENCY RATIO" } else { "RATIO" };
        columns.push((heading, Align::Right, KEEP, Box::new(show)));
    }
    if is_open {
        let mean = |run: &RunResult| run.latencies().mean() / 1e3;
        columns.push(("MEAN", Align::Right, KEEP, Box::new(move |kind| latency(kind.median(mean)))));
    }
    if is_repeated {
        columns.push(("MIN-MAX", Align::Right, 2, Box::new(spread)));
    }
    columns.extend::<[Column<'a>; 3]>([
        ("BYTES/S", Align::Right, 4, Box::new(|kind| bandwidth(kind.median(RunResult::bytes_per_second)))),
        ("P50", Align::Right, 1, Box::new(|kind| latency(kind.median(|run| micros(run.latencies().p50()))))),
        (
            "P99",
            Align::Right,
            KEEP,
            Box::new(|kind| latency(kind.median(|run| micros(run.latencies().p99())))),
        ),
    ]);
    if has_cache {
        columns.extend::<[Column<'a>; 3]>([
            (
                "HITS",
                Align::Right,
                KEEP,
                Box::new(|kind| optional(kind.median_of_known(RunResult::hit_ratio).map(percent))),
            ),
            (
                "WRITTEN",
                Align::Right,
                3,
                Box::new(|kind| optional(kind.median_of_known(cache_bytes).map(bytes))),
            ),
            (
                "WRITE AMPLIFICATION",
                Align::Right,
                5,
                Box::new(|kind| optional(kind.median_of_known(RunResult::written_per_byte).map(two))),
            ),
        ]);
    }
    columns
}

fn optional(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.into())
}

fn spread(kind: &ComparedRuns<'_>) -> String {
    let least = kind.runs.iter().map(RunResult::iops).fold(f64::INFINITY, f64::min);
    let most = kind.runs.iter().map(RunResult::iops).fold(0.0, f64::max);
    format!("{least:.0}-{most:.0}")
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a run are far below 2^53")]
fn cache_bytes(run: &RunResult) -> Option<f64> {
    run.cache_device.as_ref().map(|device| device.write_bytes as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
fn bytes(amount: f64) -> String {
    show_bytes(amount.round() as u64)
}

fn bandwidth(bytes_per_second: f64) -> String {
    bytes(bytes_per_second)
}

fn two(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}

fn latency(micros: f64) -> String {
    match micros {
        none if none <= 0.0 => NOTHING.into(),
        few if few < 1_000.0 => format!("{few:.0} µs"),
        millis if millis < 1e6 => format!("{:.1} ms", millis / 1e3),
        long => format!("{:.1} s", long / 1e6),
    }
}
