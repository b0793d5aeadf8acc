//! The table at the head of the page: a row a run, and how it compares with the first.

use kickcache_model::result::RunResult;
use kickcache_model::result::latencies::Latencies;
use kickcache_units::{show_bytes, show_rate};

use crate::html::{escape, section};
use crate::measure::Measure;
use crate::plot::axis::{show_bandwidth, show_nanos};
use crate::repeated::Repeated;

/// The section; the reader may choose another run as the measure.
pub(crate) fn table(runs: &[Repeated<'_>]) -> String {
    let columns = columns(runs);
    let head: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.name)).collect();
    let measure = Measure::of(runs);
    let base = runs.first().map(|first| first.run);
    let rows: String = runs.iter().map(|run| row(run, &columns, measure, base)).collect();
    let table = format!(
        "<table class=\"summary\">\n<thead><tr><th scope=\"col\">run</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n"
    );
    section("Results", &format!("{}{table}{}", chooser(runs), meaning(&columns, measure)))
}

/// What the columns are.
fn meaning(columns: &[Column], measure: Measure) -> String {
    let ratio = match measure {
        Measure::Rate => "ratio: of IOPS to the first run, or the one that is chosen above",
        Measure::MeanLatency => {
            "ratio: of the mean latency to the first run, or the one that is chosen above; the load comes at times \
                                 of its own, so that the rate is the same whatever the device; lower is better"
        }
    };
    let known = [
        ("IOPS", "IOPS: reads and writes a second"),
        (
            "min-max",
            "min-max: of the runs that were repeated; the other figures are of the run with the middle rate",
        ),
        ("ratio", ratio),
        (
            "p50",
            "p50, p99, p99.9: half, 99 % and 99.9 % of the operations took at most so long, from request to reply",
        ),
        ("hits", "hits: the part of the blocks asked for that was found in the cache"),
        (
            "write amplification",
            "write amplification: bytes written to the cache device for each that was to be kept there",
        ),
    ];
    let is_shown = |name: &str| columns.iter().any(|column| column.name == name);
    let texts: Vec<&str> = known.iter().filter(|(name, _)| is_shown(name)).map(|(_, text)| *text).collect();
    format!("<p class=\"note\">{}.</p>\n", escape(&texts.join(". ")))
}

/// What stands where a run has no figure.
const NOTHING: &str = "\u{2013}";

/// Lets the reader choose what ratios are to.
fn chooser(runs: &[Repeated<'_>]) -> String {
    if runs.len() < 2 {
        return String::new();
    }
    let option = |(index, known): (usize, &Repeated<'_>)| {
        format!("<option value=\"{index}\">{}</option>", escape(&known.run.name))
    };
    let options: String = runs.iter().enumerate().map(option).collect();
    format!(
        "<p class=\"chooser\" hidden><label>Ratios are to <select id=\"measure\">{options}</select></label></p>\n"
    )
}

/// What a column shows of a run.
type Value = fn(&RunResult, &Latencies) -> Option<String>;

struct Column {
    name: &'static str,
    class: &'static str,
    value: Value,
}

const fn column(name: &'static str, value: Value) -> Column {
    Column { name, class: "", value }
}

/// The columns that at least one run has something for.
fn columns(runs: &[Repeated<'_>]) -> Vec<Column> {
    let all = [
        Column { name: "IOPS", class: "strong", value: |run, _| Some(show_rate(run.iops())) },
        Column { name: "min-max", class: "spread", value: |_, _| Some(String::new()) },
        Column { name: "ratio", class: "ratio", value: |_, _| Some(String::new()) },
        Column { name: "mean", class: "mean", value: |_, latencies| Some(show_nanos(latencies.mean())) },
        column("bytes/s", |run, _| Some(show_bandwidth(run.bytes_per_second()))),
        column("p50", |_, latencies| nanos(latencies, 0.5)),
        column("p99", |_, latencies| nanos(latencies, 0.99)),
        column("p99.9", |_, latencies| nanos(latencies, 0.999)),
        column("hits", |run, _| run.hit_ratio().map(|ratio| format!("{:.1} %", ratio * 100.0))),
        column("written to cache", |run, _| {
            run.cache_device.as_ref().map(|device| show_bytes(device.write_bytes))
        }),
        column("write amplification", |run, _| run.written_per_byte().map(|ratio| format!("{ratio:.2}"))),
    ];
    let is_used = |column: &Column| match column.class {
        "mean" => Measure::of(runs) == Measure::MeanLatency,
        "ratio" => runs.len() > 1,
        "spread" => runs.iter().any(|known| known.all.len() > 1),
        _ => runs.iter().any(|known| (column.value)(known.run, &known.run.latencies()).is_some()),
    };
    all.into_iter().filter(is_used).collect()
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn nanos(latencies: &Latencies, quantile: f64) -> Option<String> {
    (latencies.count() > 0).then(|| show_nanos(latencies.quantile(quantile) as f64))
}

fn row(known: &Repeated<'_>, columns: &[Column], measure: Measure, base: Option<&RunResult>) -> String {
    let run = known.run;
    let latencies = run.latencies();
    let ratio = base.and_then(|base| measure.ratio(base, run));
    let cell = |column: &Column| {
        let value = match column.class {
            "ratio" => ratio.map_or_else(|| NOTHING.into(), show_factor),
            "spread" => show_spread(known),
            _ => (column.value)(run, &latencies).unwrap_or_else(|| NOTHING.into()),
        };
        let none = if value == NOTHING { " none" } else { "" };
        format!("<td class=\"{}{none}\" data-label=\"{}\">{}</td>", column.class, column.name, escape(&value))
    };
    let cells: String = columns.iter().map(cell).collect();
    // The script computes ratios, too: not of a rate that says nothing.
    let is_alike = base.is_none_or(|base| base.pacing == run.pacing);
    let value = if is_alike { measure.value(run) } else { f64::NAN };
    let class = if run.predicts.is_some() { " class=\"predicted\"" } else { "" };
    format!(
        "<tr{class} data-measure=\"{value:.3}\"><th scope=\"row\">{}</th>{cells}</tr>\n",
        escape(&run.name)
    )
}

fn show_spread(known: &Repeated<'_>) -> String {
    if known.all.len() < 2 {
        return NOTHING.into();
    }
    format!("{} to {} ({} runs)", show_rate(known.least), show_rate(known.most), known.all.len())
}

/// A factor to three digits, as the script writes it too.
pub(crate) fn show_factor(factor: f64) -> String {
    if !factor.is_finite() {
        return NOTHING.into();
    }
    let digits = if factor < 9.995 { 2 } else { usize::from(factor < 99.95) };
    format!("\u{d7} {factor:.digits$}")
}
