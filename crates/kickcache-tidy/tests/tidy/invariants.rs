//! Labels of invariants are in the table of ARCHITECTURE.md, each once, and the code states them where the
//! table says.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Names that look like labels: elliptic curves, and the serial number of a disk in a test.
const OTHERS: [&str; 2] = ["P-", "S-7"];

static LABEL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^\w-])([A-Z]-\d{1,3})\b").unwrap());
static STATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^//! [*-] ([A-Z]-\d+(?:, [A-Z]-\d+)*):").unwrap());

fn labels(text: &str) -> Vec<&str> {
    let found = LABEL.captures_iter(text).filter_map(|found| found.get(2)).map(|found| found.as_str());
    found.filter(|label| !OTHERS.iter().any(|other| label.starts_with(other))).collect()
}

struct Row<'a> {
    line: usize,
    labels: Vec<&'a str>,
    places: Vec<&'a str>,
}

fn rows(document: &Source) -> Vec<Row<'_>> {
    let lines = document.lines().skip_while(|(_, line)| *line != "## Invariants").skip(1);
    let rows =
        lines.take_while(|(_, line)| !line.starts_with("## ")).filter(|(_, line)| line.starts_with("| "));
    rows.filter_map(|(number, line)| row(number, line)).collect()
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.split('|').map(str::trim).collect();
    let places = cells.get(3)?.split('`').skip(1).step_by(2).collect();
    Some(Row { line, labels: labels(cells[1]), places })
}

/// `path/write` is the file or the folder of that name.
fn is_at(path: &str, place: &str) -> bool {
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    format!("/{module}/").contains(&format!("/{place}/"))
}

fn findings(sources: &[Source]) -> Vec<String> {
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        return vec![format!("{DOCUMENT}: it is missing")];
    };
    let rows = rows(document);
    let mut table: BTreeMap<&str, &Row<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for row in &rows {
        for label in &row.labels {
            if table.insert(label, row).is_some() {
                found.push(
                    document.finding(row.line, &format!("{label} has another row; give it another number")),
                );
            }
        }
    }
    let mut unused: BTreeMap<&str, &Row<'_>> = table.clone();
    for source in sources.iter().filter(|source| source.is_rust() && !source.path.contains("/tests/tidy/")) {
        for (number, line) in source.lines() {
            for label in labels(line) {
                unused.remove(label);
                if !table.contains_key(label) {
                    found.push(
                        source.finding(number, &format!("{label} is not in the table of {DOCUMENT}; add it")),
                    );
                }
            }
            let stated =
                STATED.captures(line).and_then(|found| found.get(1)).map_or("", |found| found.as_str());
            for label in stated.split(", ") {
                let Some(row) = table.get(label) else { continue };
                if !row.places.iter().any(|place| is_at(&source.path, place)) {
                    let places = row.places.join(", ");
                    let what = format!(
                        "{label} is stated in {places} by {DOCUMENT}; add the place, or use another label"
                    );
                    found.push(source.finding(number, &what));
                }
            }
        }
    }
    let what = |(label, row): (&&str, &&Row<'_>)| {
        document.finding(row.line, &format!("{label} is not in the code; remove it, or state it"))
    };
    found.extend(unused.iter().map(what));
    found
}

#[test]
fn labels_of_invariants_are_unique_and_in_the_table() {
    expect_nothing(&findings(&sources()));
}

#[test]
fn labels_without_a_row_or_with_two_meanings_are_found() {
    let table = "| M-9 | x | `y` |\n## Invariants\n\n| name | invariant | where |\n|---|---|---|\n\
                 | M-1, M-2 | copied | `mirror` |\n| M-2 | again | `path/mark` |\n| O-1 | order | `order` |\n\n\
                 ## Next\n| Z-1 | x | `y` |\n";
    let files = [
        source("ARCHITECTURE.md", table),
        source("crates/x/src/mirror/mod.rs", "//! * M-1, M-2: both.\n// UTF-8, P-256\n"),
        source("crates/x/src/path/mark.rs", "//! - M-1: a mark.\nassert!(true, \"N-1: no\");\n"),
    ];
    assert_eq!(
        findings(&files),
        [
            "ARCHITECTURE.md:7: M-2 has another row; give it another number",
            "crates/x/src/mirror/mod.rs:1: M-2 is stated in path/mark by ARCHITECTURE.md; add the place, or use another label",
            "crates/x/src/path/mark.rs:1: M-1 is stated in mirror by ARCHITECTURE.md; add the place, or use another label",
            "crates/x/src/path/mark.rs:2: N-1 is not in the table of ARCHITECTURE.md; add it",
            "ARCHITECTURE.md:8: O-1 is not in the code; remove it, or state it",
        ]
    );
}
