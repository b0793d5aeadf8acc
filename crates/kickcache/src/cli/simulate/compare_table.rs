//! The table of `kickcache simulate run` and `compare`.

use std::io::{self, Write};

use kickcache_sim::others::choice::Choice;
use kickcache_sim::result::RunResult;

use crate::cli::table::{Align, Cell, Colour, Table};
use crate::units::{Size, show_bytes};

/// Runs of one cache that differ in their seed only.
pub(crate) struct Line<'a> {
    pub(crate) cache: Choice,
    pub(crate) size: Size,
    pub(crate) runs: &'a [RunResult],
}

const COLUMNS: [(&str, Align); 9] = [
    ("CACHE", Align::Left),
    ("SIZE", Align::Right),
    ("IOPS", Align::Right),
    ("SPREAD", Align::Right),
    ("THROUGHPUT", Align::Right),
    ("P50", Align::Right),
    ("P99", Align::Right),
    ("HITS", Align::Right),
    ("WRITTEN/KEPT", Align::Right),
];

pub(crate) fn print(lines: &[Line<'_>], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&COLUMNS);
    for line in lines {
        table.row(cells(line).into_iter().map(Cell::new).collect());
    }
    table.print(out, Colour::for_stdout())
}

/// The middle one of some numbers; 0 if there are none.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

fn cells(line: &Line<'_>) -> Vec<String> {
    let of = |figure: &dyn Fn(&RunResult) -> f64| median(line.runs.iter().map(figure));
    let least = line.runs.iter().map(RunResult::iops).fold(f64::INFINITY, f64::min);
    let most = line.runs.iter().map(RunResult::iops).fold(0.0, f64::max);
    let spread = if line.runs.len() > 1 { format!("{least:.0} to {most:.0}") } else { "-".into() };
    let size = if line.cache == Choice::None { "-".into() } else { show_bytes(line.size.bytes()) };
    let optional = |values: Vec<f64>, show: &dyn Fn(f64) -> String| {
        if values.is_empty() { "-".into() } else { show(median(values.into_iter())) }
    };
    vec![
        line.cache.name().into(),
        size,
        format!("{:.0}", of(&RunResult::iops)),
        spread,
        format!("{:.1} MB/s", of(&RunResult::bytes_per_second) / 1e6),
        show_latency(of(&|run| micros(run.latencies().p50()))),
        show_latency(of(&|run| micros(run.latencies().p99()))),
        optional(line.runs.iter().filter_map(RunResult::hit_ratio).collect(), &|ratio| {
            format!("{:.2} %", ratio * 100.0)
        }),
        optional(line.runs.iter().filter_map(RunResult::written_per_byte).collect(), &|ratio| {
            format!("{ratio:.2}")
        }),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}

fn show_latency(micros: f64) -> String {
    if micros < 1_000.0 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1_000.0) }
}
