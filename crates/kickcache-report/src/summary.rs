//! The table of results: a row for each run; repeated runs share a row.

use std::collections::BTreeMap;

use kickcache_model::result::RunResult;
use kickcache_units::show_rate;

use crate::charts::float;
use crate::html::{escape, section};
use crate::measure::Measure;
use crate::plot::axis::{show_bandwidth, show_nanos, show_size};
use crate::repeated_runs::RepeatedRuns;

pub(crate) fn table(runs: &[RepeatedRuns<'_>]) -> String {
    let columns = columns(runs);
    let head: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.name)).collect();
    let measure = Measure::of(runs);
    let base = runs.first();
    let rows: String = runs.iter().map(|run| row(run, &columns, measure, base)).collect();
    let table = format!(
        "<table class=\"summary\">\n<thead><tr><th scope=\"col\">run</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n"
    );
    let ramp = if runs.iter().any(|known| known.run.ramp_nanos > 0) { RAMP } else { "" };
    section("Results", &format!("{}{table}{}{ramp}", chooser(runs), meaning(&columns, measure)))
}

fn meaning(columns: &[Column], measure: Measure) -> String {
    let ratio = match measure {
        Measure::Rate => {
            "ratio: IOPS divided by the IOPS of the first run, or of the run chosen above; of repeated runs, round by round"
        }
        Measure::MeanLatency => {
            "ratio: mean latency divided by that of the first run, or of the run \
                                 chosen above. Requests arrive at fixed times, so the rate does not \
                                 depend on the device. Lower is better"
        }
    };
    let known = [
        ("IOPS", "IOPS: reads and writes a second"),
        ("min-max", "min-max: of the runs that were repeated; the other figures are medians"),
        ("ratio", ratio),
        (
            "p50",
            "p50, p99, p99.9: half, 99 % and 99.9 % of the operations took at most so long, from request to reply",
        ),
        ("hits", "hits: the share of the requested blocks that was served from the cache"),
        (
            "write amplification",
            "write amplification: bytes written to the cache device for each that was to be kept there",
        ),
    ];
    let is_shown = |name: &str| columns.iter().any(|column| column.name == name);
    let texts: Vec<&str> = known.iter().filter(|(name, _)| is_shown(name)).map(|(_, text)| *text).collect();
    format!("<p class=\"note\">{}.</p>\n", escape(&texts.join(". ")))
}

const RAMP: &str = "<p class=\"note\">Operations and latencies exclude the ramp time; hits and bytes \
                    written cover the whole run.</p>\n";
const NOTHING: &str = "\u{2013}";

/// The choice of the base of the ratios; empty for fewer than two runs.
fn chooser(runs: &[RepeatedRuns<'_>]) -> String {
    if runs.len() < 2 {
        return String::new();
    }
    let option = |(index, known): (usize, &RepeatedRuns<'_>)| {
        format!("<option value=\"{index}\">{}</option>", escape(&known.run.name))
    };
    let options: String = runs.iter().enumerate().map(option).collect();
    format!(
        "<p class=\"chooser\" hidden><label>Ratios are to <select id=\"measure\">{options}</select></label></p>\n"
    )
}

struct Column {
    name: &'static str,
    class: &'static str,
    figure: fn(&RunResult) -> Option<f64>,
    show: fn(f64) -> String,
}

impl Column {
    const fn new(
        name: &'static str,
        figure: fn(&RunResult) -> Option<f64>,
        show: fn(f64) -> String,
    ) -> Column {
        Column { name, class: "", figure, show }
    }
}

/// The columns that the runs need.
fn columns(runs: &[RepeatedRuns<'_>]) -> Vec<Column> {
    let unknown = |_: &RunResult| None;
    let all = [
        Column { class: "strong", ..Column::new("IOPS", |run| Some(run.iops()), show_rate) },
        Column { class: "spread", ..Column::new("min-max", unknown, show_rate) },
        Column { class: "ratio", ..Column::new("ratio", unknown, show_factor) },
        Column { class: "mean", ..Column::new("mean", |run| Some(run.latencies().mean()), show_nanos) },
        Column::new("bytes/s", |run| Some(run.bytes_per_second()), show_bandwidth),
        Column::new("p50", |run| nanos(run, 0.5), show_nanos),
        Column::new("p99", |run| nanos(run, 0.99), show_nanos),
        Column::new("p99.9", |run| nanos(run, 0.999), show_nanos),
        Column::new("hits", RunResult::hit_ratio, |ratio| format!("{:.1} %", ratio * 100.0)),
        Column::new(
            "written to cache",
            |run| run.cache_device.as_ref().map(|device| float(device.write_bytes)),
            show_size,
        ),
        Column::new("write amplification", RunResult::written_per_byte, |ratio| format!("{ratio:.2}")),
    ];
    let is_used = |column: &Column| match column.class {
        "mean" => Measure::of(runs) == Measure::MeanLatency,
        "ratio" => runs.len() > 1,
        "spread" => runs.iter().any(|known| known.all.len() > 1),
        _ => runs.iter().any(|known| known.median(column.figure).is_some()),
    };
    all.into_iter().filter(is_used).collect()
}

fn nanos(run: &RunResult, quantile: f64) -> Option<f64> {
    let latencies = run.latencies();
    (latencies.count() > 0).then(|| float(latencies.quantile(quantile)))
}

fn row(
    known: &RepeatedRuns<'_>,
    columns: &[Column],
    measure: Measure,
    base: Option<&RepeatedRuns<'_>>,
) -> String {
    let run = known.run;
    let ratio = base.and_then(|base| measure.ratio(base, known));
    let cell = |column: &Column| {
        let value = match column.class {
            "ratio" => ratio.map_or_else(|| NOTHING.into(), show_factor),
            "spread" => show_spread(known),
            _ => known.median(column.figure).map_or_else(|| NOTHING.into(), column.show),
        };
        let none = if value == NOTHING { " none" } else { "" };
        format!("<td class=\"{}{none}\" data-label=\"{}\">{}</td>", column.class, column.name, escape(&value))
    };
    let cells: String = columns.iter().map(cell).collect();
    // The script computes ratios, too; it must not use a rate that is no measure of speed.
    let value = if measure.says_something(known) { measure.of_all(known) } else { f64::NAN };
    let by_seed: BTreeMap<u64, f64> = known.all.iter().map(|run| (run.seed, measure.value(run))).collect();
    let rounds = escape(&serde_json::json!(by_seed).to_string());
    let class = if run.predicts.is_some() { " class=\"predicted\"" } else { "" };
    format!(
        "<tr{class} data-measure=\"{value:.3}\" data-rounds=\"{rounds}\"><th scope=\"row\">{}</th>{cells}</tr>\n",
        escape(&run.name)
    )
}

fn show_spread(known: &RepeatedRuns<'_>) -> String {
    if known.all.len() < 2 {
        return NOTHING.into();
    }
    format!("{} to {} ({} runs)", show_rate(known.least), show_rate(known.most), known.all.len())
}

/// A factor with two decimals, one from 9.995 on and none from 99.95 on, as the script writes it; a dash if
/// it is not finite.
pub(crate) fn show_factor(factor: f64) -> String {
    if !factor.is_finite() {
        return NOTHING.into();
    }
    let digits = if factor < 9.995 { 2 } else { usize::from(factor < 99.95) };
    format!("\u{d7} {factor:.digits$}")
}
