//! Advice as a table and as JSON.

use std::io;
use std::time::Duration;

use kickcache_command::table::{Align, Cell, Colour, KEEP, Table, Tone};
use kickcache_command::user_text::Printer;
use kickcache_command::width::terminal_width;
use kickcache_units::{show_bytes, show_duration, show_rate, show_years};
use serde_json::{Value, json};

use crate::cli::advise::advice::Advice;
use crate::cli::advise::candidate::{Candidate, Layout};

/// The cell of a missing figure.
const NOTHING: &str = "-";

/// A column: its heading, its rank when columns are dropped, and its value for a candidate.
type Column<'a> = (&'static str, u8, Box<dyn Fn(&Candidate) -> String + 'a>);

pub(super) fn table(advice: &Advice, out: &mut dyn Printer) -> io::Result<()> {
    let Advice { load, origin, cache, fast, .. } = advice;
    if advice.recommendation.chosen.is_some() {
        writeln!(out, "{}\n", advice.recommendation.reason)?;
    }
    writeln!(out, "{load}\norigin: {origin}; cache device: {cache}; fast device: {fast}\n")?;
    let columns = columns(advice);
    let side = |index: usize| if index == 0 { Align::Left } else { Align::Right };
    let headings: Vec<(&str, Align, u8)> =
        columns.iter().enumerate().map(|(index, column)| (column.0, side(index), column.1)).collect();
    let mut table = Table::ranked(&headings);
    for (index, candidate) in advice.candidates.iter().enumerate() {
        let is_chosen = advice.recommendation.chosen == Some(index);
        let tone = if is_chosen { Tone::Good } else { Tone::Plain };
        table.row(columns.iter().map(|column| Cell::toned((column.2)(candidate), tone)).collect());
    }
    table.print_within(out, Colour::for_stdout(), terminal_width())?;
    if !advice.notes.is_empty() {
        writeln!(out)?;
    }
    advice.notes.iter().try_for_each(|note| writeln!(out, "Note: {note}."))
}

fn columns(advice: &Advice) -> Vec<Column<'_>> {
    // For a load at fixed times the mean latency decides.
    let of_mean = if advice.candidates.iter().any(|one| one.is_open) { KEEP } else { 3 };
    let optional = |figure: Option<String>| figure.unwrap_or_else(|| NOTHING.into());
    let bare = Layout::Origin.among(&advice.candidates);
    let mut columns: Vec<Column<'_>> = vec![
        ("LAYOUT", KEEP, Box::new(Candidate::name)),
        ("HITS", KEEP, Box::new(move |one| optional(one.hits.map(|hits| show_hits(hits.ratio, hits.error))))),
        ("SPEED", KEEP, Box::new(move |one| optional(bare.map(|bare| format!("{:.1}x", one.times(bare)))))),
        ("IOPS", KEEP, Box::new(|one| format!("{:.0}", one.iops))),
        ("MEAN", of_mean, Box::new(|one| show_duration(one.mean))),
        ("P50", 2, Box::new(|one| show_duration(one.p50))),
        ("P99", KEEP, Box::new(|one| show_duration(one.p99))),
        ("ORIGIN/S", 1, Box::new(|one| show_rate(one.origin_iops))),
        ("ORIGIN BYTES/S", 4, Box::new(|one| bytes(one.origin_bytes))),
        ("WRITTEN/DAY", KEEP, Box::new(move |one| optional(one.written_per_day.map(bytes)))),
    ];
    if advice.candidates.iter().any(|one| one.years.is_some()) {
        columns.push(("LIFE", KEEP, Box::new(move |one| optional(one.years.map(show_years)))));
    }
    if advice.candidates.iter().any(|one| one.cost.is_some()) {
        let cost = move |one: &Candidate| optional(one.cost.map(|cost| advice.prices.show(cost)));
        columns.push(("COST/MONTH", KEEP, Box::new(cost)));
    }
    columns
}

pub(super) fn show_hits(ratio: f64, error: Option<f64>) -> String {
    let off = error.map_or_else(String::new, |error| format!(" ± {:.1}", error * 100.0));
    format!("{:.1}{off} %", ratio * 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a rate")]
fn bytes(bytes: f64) -> String {
    show_bytes(bytes as u64)
}

pub(super) fn json(advice: &Advice) -> Value {
    let candidates: Vec<Value> = advice.candidates.iter().map(of_candidate).collect();
    json!({
        "load": advice.load, "origin": advice.origin, "cache_device": advice.cache, "fast_device": advice.fast,
        "currency": advice.prices.currency, "candidates": candidates,
        "needs": advice.needs.iter().map(ToString::to_string).collect::<Vec<_>>(), "notes": advice.notes,
        "recommended": advice.recommendation.chosen, "reason": advice.recommendation.reason,
    })
}

fn of_candidate(one: &Candidate) -> Value {
    let layout = match one.layout {
        Layout::Origin => "origin",
        Layout::Cached(_) => "cache",
        Layout::Fast => "fast",
    };
    json!({
        "layout": layout, "cache_bytes": one.layout.cache_bytes(), "hit_ratio": one.hits.map(|hits| hits.ratio),
        "hit_ratio_error": one.hits.and_then(|hits| hits.error), "iops": one.iops,
        "mean_nanoseconds": nanos(one.mean), "p50_nanoseconds": nanos(one.p50), "p99_nanoseconds": nanos(one.p99),
        "origin_iops": one.origin_iops, "origin_bytes_per_second": one.origin_bytes,
        "written_bytes_per_day": one.written_per_day, "life_years": one.years, "cost_per_month": one.cost,
    })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
