//! Compares docs/reference/configuration.md with the keys that the parser accepts.

use std::collections::BTreeSet;
use std::path::Path;

use super::parse;

const PAGE: &str = include_str!("../../../../docs/reference/configuration.md");

/// The keys that the parser names when it refuses an unknown key below these lines.
fn accepted(lines: &str) -> BTreeSet<String> {
    let text = format!("{lines}no-such-key = 1\n");
    let refusal = parse(Path::new("k.toml"), &text).unwrap_err().to_string();
    let keys = refusal.split_once("here; there is ").unwrap().1;
    keys.split(", ").map(str::to_owned).collect()
}

fn documented(heading: &str) -> BTreeSet<String> {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let mut keys = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 6 && cells[1..5].iter().all(|cell| !cell.is_empty()), "{row}");
        assert!(keys.insert(cells[1].trim_matches('`').to_owned()), "twice: {row}");
    }
    keys
}

fn without(mut keys: BTreeSet<String>, table: &str) -> BTreeSet<String> {
    assert!(keys.remove(table), "{table} is a table of the file");
    keys
}

#[test]
fn the_page_has_exactly_the_keys_of_the_file() {
    assert_eq!(documented("Daemon"), without(accepted(""), "cache"));
    let cache = "[[cache]]\ndevice = \"/c\"\n";
    assert_eq!(documented("Cache device"), without(accepted(cache), "volume"));
    assert_eq!(documented("Volume"), accepted(&format!("{cache}[[cache.volume]]\n")));
}
