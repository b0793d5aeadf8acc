//! The table at the head of the page: a row a run, and how it compares with the first.

use kickcache_model::result::RunResult;
use kickcache_model::result::latencies::Latencies;
use kickcache_units::{show_bytes, show_rate};

use crate::html::{escape, section};
use crate::plot::axis::{show_bandwidth, show_nanos};
use crate::repeated::Repeated;

/// The section; the reader may choose another run as the measure.
pub(crate) fn table(runs: &[Repeated<'_>]) -> String {
    let columns = columns(runs);
    let head: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.name)).collect();
    let measure = runs.first().map_or(0.0, |first| first.run.iops());
    let rows: String = runs.iter().map(|run| row(run, &columns, measure)).collect();
    let table = format!(
        "<table class=\"summary\">\n<thead><tr><th scope=\"col\">run</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n"
    );
    section("Results", &format!("{}{table}", chooser(runs)))
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
        "ratio" => runs.len() > 1,
        "spread" => runs.iter().any(|known| known.count > 1),
        _ => runs.iter().any(|known| (column.value)(known.run, &known.run.latencies()).is_some()),
    };
    all.into_iter().filter(is_used).collect()
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn nanos(latencies: &Latencies, quantile: f64) -> Option<String> {
    (latencies.count() > 0).then(|| show_nanos(latencies.quantile(quantile) as f64))
}

fn row(known: &Repeated<'_>, columns: &[Column], measure: f64) -> String {
    let run = known.run;
    let latencies = run.latencies();
    let cell = |column: &Column| {
        let value = match column.class {
            "ratio" => show_factor(run.iops() / measure),
            "spread" => show_spread(known),
            _ => (column.value)(run, &latencies).unwrap_or_else(|| NOTHING.into()),
        };
        let none = if value == NOTHING { " none" } else { "" };
        format!("<td class=\"{}{none}\" data-label=\"{}\">{}</td>", column.class, column.name, escape(&value))
    };
    let cells: String = columns.iter().map(cell).collect();
    let iops = run.iops();
    format!("<tr data-iops=\"{iops:.3}\"><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&run.name))
}

fn show_spread(known: &Repeated<'_>) -> String {
    if known.count < 2 {
        return NOTHING.into();
    }
    format!("{} to {} ({} runs)", show_rate(known.least), show_rate(known.most), known.count)
}

/// A factor to three digits, as the script writes it too.
pub(crate) fn show_factor(factor: f64) -> String {
    if !factor.is_finite() {
        return NOTHING.into();
    }
    let digits = if factor < 9.995 { 2 } else { usize::from(factor < 99.95) };
    format!("\u{d7} {factor:.digits$}")
}
