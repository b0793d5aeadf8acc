//! kickcache.toml(5), from the page of the documentation.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::roff::{Inline, Roff, bold, roman};

const PAGE: &str = include_str!("../../../../../docs/reference/configuration.md");

pub(super) fn write(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("kickcache.toml.5"), page().render())
}

fn page() -> Roff {
    let mut roff = Roff::default();
    let version = format!("kickcache {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["kickcache.toml", "5", "", version.as_str(), ""]);
    roff.control("SH", ["NAME"]).text([roman("kickcache.toml - configuration file of the kickcache daemon")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (index, part) in PAGE.split("```").enumerate() {
        if index % 2 == 1 {
            render_code(part, &mut roff);
        } else {
            part.split("\n\n").for_each(|paragraph| render(paragraph.trim(), &mut roff));
        }
    }
    roff.control("SH", ["SEE ALSO"]).text([roman("kickcache(1), kickcache-serve(1), kickcache-reload(1)")]);
    roff
}

fn render(paragraph: &str, roff: &mut Roff) {
    let first = paragraph.lines().next().unwrap_or_default();
    if let Some(heading) = first.strip_prefix("## ") {
        roff.control("SH", [heading.to_uppercase().as_str()]);
    } else if first.starts_with('|') {
        let heads = cells(first);
        paragraph.lines().skip(2).for_each(|row| render_row(&heads, &cells(row), roff));
    } else if !first.is_empty() && !first.starts_with("# ") {
        for item in paragraph.split("\n* ") {
            let text = item.trim_start_matches("* ").split_whitespace().collect::<Vec<_>>().join(" ");
            roff.control("PP", []).text(inlines(&text));
        }
    }
}

/// The first line has the language.
fn render_code(part: &str, roff: &mut Roff) {
    roff.control("nf", []);
    for line in part.lines().skip(1) {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

/// The term is the first cell; then the last cell, and below it the others with their headings.
fn render_row(heads: &[&str], row: &[&str], roff: &mut Roff) {
    let [term, others @ .., meaning] = row else { return };
    roff.control("TP", []).text([bold(term.replace('`', ""))]);
    roff.text(inlines(&format!("{meaning}.")));
    for (head, cell) in heads.iter().skip(1).zip(others) {
        roff.control("br", []).text(inlines(&format!("{head}: {cell}")));
    }
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Code in bold, and links as their text.
fn inlines(text: &str) -> Vec<Inline> {
    let mut text = text.to_owned();
    while let Some((before, link)) = text.split_once("](") {
        let (Some(open), Some(close)) = (before.rfind('['), link.find(')')) else { break };
        text = format!("{}{}{}", &before[..open], &before[open + 1..], &link[close + 1..]);
    }
    let parts = text.split('`').map(str::to_owned).enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { bold(part) } else { roman(part) }).collect()
}
