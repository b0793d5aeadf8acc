//! The tables of `kickcache simulate published`, for people, programs and documents.

use std::io::{self, Write};

use kickcache_model::published::figures::Figures;
use serde_json::{Value, json};

use crate::cli::simulate::steady_table::{self, SteadyLine};
use crate::cli::simulate::table_format::TableFormat;
use crate::cli::table::{Align, Cell, Colour, Table};

/// A row with its model and kickcache.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) minutes: u64,
    pub(crate) fitted: Option<&'static str>,
    pub(crate) published: Figures,
    pub(crate) model: Option<Figures>,
    pub(crate) kickcache: Option<Figures>,
    pub(crate) kickcache_at_end: Option<f64>,
}

/// A row of the cloud's table.
pub(crate) struct CloudLine {
    pub(crate) name: &'static str,
    pub(crate) published: [f64; 3],
    pub(crate) models: [f64; 3],
    pub(crate) kickcache: f64,
    pub(crate) asked: Option<f64>,
}

const HEADINGS: [&str; 12] = [
    "row",
    "min",
    "published",
    "jobs",
    "share",
    "model",
    "jobs",
    "share",
    "model/pub.",
    "kickcache",
    "jobs",
    "kick./pub.",
];
const CLOUD_HEADINGS: [&str; 8] =
    ["workload", "slow disk", "model", "fast disk", "model", "bcache", "model", "kickcache"];

/// All tables.
pub(crate) struct Tables<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) cloud: &'a [CloudLine],
    pub(crate) steady: &'a [SteadyLine],
}

pub(crate) fn print(tables: &Tables<'_>, format: TableFormat, out: &mut dyn Write) -> io::Result<()> {
    let Tables { lines, cloud, steady } = *tables;
    if format == TableFormat::Json {
        let rows: Vec<Value> = lines.iter().map(to_json).collect();
        let cloud: Vec<Value> = cloud.iter().map(cloud_to_json).collect();
        let steady: Vec<Value> = steady.iter().map(steady_table::to_json).collect();
        let text = serde_json::to_string_pretty(&json!({ "rows": rows, "cloud": cloud, "steady": steady }))?;
        return writeln!(out, "{text}");
    }
    if !lines.is_empty() {
        let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
        table(&HEADINGS, &rows, format, out)?;
    }
    if !cloud.is_empty() {
        let gap = if lines.is_empty() { "" } else { "\n" };
        writeln!(out, "{gap}Cloud disks, operations a second or MiB a second:\n")?;
        let rows: Vec<Vec<String>> = cloud.iter().map(cloud_cells).collect();
        table(&CLOUD_HEADINGS, &rows, format, out)?;
    }
    if !steady.is_empty() {
        let gap = if lines.is_empty() && cloud.is_empty() { "" } else { "\n" };
        writeln!(
            out,
            "{gap}Reads of 4 KiB, zipf 1.2 over 1 GiB, in steady state, hits and fills for each read:\n"
        )?;
        let rows: Vec<Vec<String>> = steady.iter().map(steady_table::cells).collect();
        table(&steady_table::HEADINGS, &rows, format, out)?;
    }
    Ok(())
}

fn table(
    headings: &[&str],
    rows: &[Vec<String>],
    format: TableFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    if format == TableFormat::Markdown {
        writeln!(out, "| {} |", headings.join(" | "))?;
        writeln!(out, "|{}", "---|".repeat(headings.len()))?;
        for row in rows {
            writeln!(out, "| {} |", row.join(" | "))?;
        }
        return Ok(());
    }
    let align = |index: usize| if index == 0 { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> =
        headings.iter().enumerate().map(|(index, name)| (*name, align(index))).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(row.iter().map(Cell::new).collect());
    }
    table.print(out, Colour::for_stdout())
}

fn cells(line: &Line) -> Vec<String> {
    let whole = |number: f64| format!("{number:.0}");
    let iops =
        |figures: &Option<Figures>| figures.as_ref().map_or_else(|| "-".into(), |known| whole(known.iops()));
    let jobs = |figures: &Figures| figures.jobs.iter().map(|iops| whole(*iops)).collect::<Vec<_>>().join("/");
    let jobs_of = |figures: &Option<Figures>| figures.as_ref().map_or_else(|| "-".into(), jobs);
    let share = |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{share:.2} %"));
    let ratio = |figures: &Option<Figures>| {
        figures
            .as_ref()
            .map_or_else(|| "-".into(), |known| format!("{:.2}", known.iops() / line.published.iops()))
    };
    let mark = line.fitted.map_or(String::new(), |what| format!(" ({what} fitted)"));
    vec![
        format!("{}{mark}", line.name),
        line.minutes.to_string(),
        whole(line.published.iops()),
        jobs(&line.published),
        share(line.published.share),
        iops(&line.model),
        jobs_of(&line.model),
        share(line.model.as_ref().and_then(|known| known.share)),
        ratio(&line.model),
        iops(&line.kickcache),
        jobs_of(&line.kickcache),
        ratio(&line.kickcache),
    ]
}

fn cloud_cells(line: &CloudLine) -> Vec<String> {
    let mut cells = vec![line.name.to_owned()];
    for (published, model) in line.published.iter().zip(&line.models) {
        cells.push(format!("{published:.0}"));
        cells.push(format!("{model:.0}"));
    }
    let asked = line.asked.map_or(String::new(), |asked| format!(" (asked: {asked:.0})"));
    cells.push(format!("{:.0}{asked}", line.kickcache));
    cells
}

fn figures_to_json(figures: &Figures) -> Value {
    json!({
        "iops": figures.iops(),
        "jobs": figures.jobs,
        "share_percent": figures.share,
        "p50_micros": figures.p50,
        "p99_micros": figures.p99,
        "written_per_byte": figures.written_per_byte,
    })
}

fn to_json(line: &Line) -> Value {
    json!({
        "name": line.name,
        "minutes": line.minutes,
        "fitted": line.fitted,
        "published": figures_to_json(&line.published),
        "model": line.model.as_ref().map(figures_to_json),
        "kickcache": line.kickcache.as_ref().map(figures_to_json),
        "kickcache_last_5_minutes_iops": line.kickcache_at_end,
    })
}

fn cloud_to_json(line: &CloudLine) -> Value {
    let three = |figures: [f64; 3]| json!({ "slow": figures[0], "fast": figures[1], "bcache": figures[2] });
    json!({
        "name": line.name,
        "published": three(line.published),
        "models": three(line.models),
        "kickcache": line.kickcache,
        "asked": line.asked,
    })
}
