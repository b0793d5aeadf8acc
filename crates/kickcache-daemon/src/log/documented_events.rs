//! Whether docs/reference/logs.md lists each event of the code with its levels, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Events = BTreeMap<String, BTreeSet<String>>;

struct Source {
    path: String,
    text: String,
}

/// Messages of the log without a macro.
const ELSEWHERE: [(&str, &str); 1] = [("lines_lost", "warn")];

fn sources(folder: &Path, texts: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            sources(&path, texts);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "documented_events.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            texts.push(Source { path: path.display().to_string(), text: product });
        }
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix('"')?.split('"').next()
}

fn find(path: &str, text: &str, events: &mut Events) {
    let mut take = |event: &str, level: &str| {
        events.entry(event.to_owned()).or_default().insert(level.to_lowercase());
    };
    for call in text.split("tracing::").skip(1) {
        let Some((level, inside)) = call.split_once("!(") else { continue };
        if !["error", "warn", "info", "debug"].contains(&level) {
            continue;
        }
        let inside = inside.trim_start();
        // Complaints have their event at the place where they are created.
        if inside.starts_with("event,") && path.ends_with("complaints.rs") {
            continue;
        }
        let event = inside.strip_prefix("event = ").and_then(quoted);
        take(event.unwrap_or_else(|| panic!("{path}: a message without an event: {inside:.60}")), level);
    }
    for made in text.split("Complaint::new(").skip(1) {
        let event = quoted(made).unwrap_or_else(|| panic!("{path}: a complaint without an event"));
        let level = made.split("Level::").nth(1).unwrap().split(',').next().unwrap();
        take(event, level);
    }
}

fn coded() -> Events {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    sources(&root.join("src"), &mut texts);
    for others in ["kickcache", "kickcache-command", "kickcache-lab"] {
        sources(&root.join("..").join(others).join("src"), &mut texts);
    }
    let mut events = Events::new();
    texts.iter().for_each(|Source { path, text }| find(path, text, &mut events));
    for (event, level) in ELSEWHERE {
        events.entry(event.into()).or_default().insert(level.into());
    }
    events
}

fn documented(page: &str) -> Events {
    let mut events = Events::new();
    let section = page.split("\n## Events").nth(1).unwrap();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 6 && cells[3..5].iter().all(|cell| !cell.is_empty()), "{row}");
        let levels = cells[2].split(", ").map(str::to_owned).collect();
        let event = cells[1].trim_matches('`').to_owned();
        assert!(events.insert(event, levels).is_none(), "twice: {row}");
    }
    events
}

#[test]
fn every_event_is_explained_with_its_levels_and_no_other() {
    assert_eq!(documented(include_str!("../../../../docs/reference/logs.md")), coded());
}

#[test]
#[should_panic(expected = "a message without an event")]
fn a_message_without_an_event_is_found() {
    find("a.rs", "tracing::info!(\"the server stops\")", &mut Events::new());
}
