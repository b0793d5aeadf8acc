//! The published tables as text: for people, and for Markdown documents.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, Table};
use kickcache_command::user_text::Printer;
use kickcache_model::published::experiment::{Column, Experiment, Figure, Table as Published};
use kickcache_model::published::simulation::Outcomes;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Text,
    Markdown,
}

/// The cell of a missing figure.
const NOTHING: &str = "-";

pub(crate) fn print(
    tables: &[Published],
    outcomes: &Outcomes,
    layout: Layout,
    out: &mut dyn Printer,
) -> io::Result<()> {
    let mut gap = "";
    for table in tables.iter().filter(|table| !table.experiments.is_empty()) {
        if let Some(caption) = table.caption {
            writeln!(out, "{gap}{caption}\n")?;
        }
        print_one(table, outcomes, layout, out)?;
        gap = "\n";
    }
    Ok(())
}

fn print_one(
    table: &Published,
    outcomes: &Outcomes,
    layout: Layout,
    out: &mut dyn Printer,
) -> io::Result<()> {
    let columns: Vec<Vec<Column>> = table.experiments.iter().map(|row| (row.columns)(outcomes)).collect();
    let headings = columns.first().into_iter().flatten().filter_map(|column| column.heading);
    let headings: Vec<&str> = std::iter::once(table.names).chain(headings).collect();
    let rows = table.experiments.iter().zip(&columns).map(|(experiment, columns)| cells(experiment, columns));
    match layout {
        Layout::Markdown => print_markdown(&headings, rows, out),
        Layout::Text => print_text(&headings, rows, out),
    }
}

fn print_markdown(
    headings: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    out: &mut dyn Printer,
) -> io::Result<()> {
    writeln!(out, "| {} |", headings.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(headings.len()))?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    Ok(())
}

fn print_text(
    headings: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    out: &mut dyn Printer,
) -> io::Result<()> {
    let align = |index: usize| if index == 0 { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> =
        headings.iter().enumerate().map(|(index, name)| (*name, align(index))).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(row.iter().map(Cell::new).collect());
    }
    table.print(out, Colour::for_stdout())
}

fn cells(experiment: &Experiment, columns: &[Column]) -> Vec<String> {
    let name = format!("{}{}", experiment.name, experiment.mark);
    let told = columns.iter().filter(|column| column.heading.is_some());
    std::iter::once(name).chain(told.map(|column| cell(&column.figure))).collect()
}

fn cell(figure: &Figure) -> String {
    match figure {
        Figure::Missing => NOTHING.into(),
        Figure::Words(words) => (*words).into(),
        Figure::Count(count) => count.to_string(),
        Figure::Rate(rate) => format!("{rate:.0}"),
        Figure::RateAsked { rate, asked } => format!("{rate:.0} (required: {asked:.0})"),
        Figure::ByJob(rates) => rates.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join("/"),
        Figure::Percent(percent) => format!("{percent:.2} %"),
        Figure::Ratio(ratio) => format!("{ratio:.2}"),
        Figure::PartOfReads(part) => format!("{part:.4}"),
        Figure::Asked(asked) => asked.to_string(),
        Figure::AtMost(most) => format!("at most {most}"),
    }
}
