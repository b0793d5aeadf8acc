//! The code map of ARCHITECTURE.md against the tree.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const NO_MODULES: [&str; 3] = ["lib", "main", "tests"];

type Map = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_code_map_is_the_tree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (told, found) =
        (told(&fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap()), found(&root.join("crates")));
    let findings = differences(&told, &found);
    assert!(findings.is_empty(), "ARCHITECTURE.md, the code map:\n  {}", findings.join("\n  "));
}

#[test]
fn missing_and_removed_modules_are_both_found() {
    let map = "# x\n### kickcache-a: the cache\n| `one` `two/` | both |\n### kickcache-b, kickcache-c\n\n## Other\n| `no` | - |\n";
    let told = told(map);
    let names = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(told["kickcache-a"], names(&["one", "two"]));
    assert!(told["kickcache-b"].is_empty() && told["kickcache-c"].is_empty());
    let found = [("kickcache-a", &["two", "three"][..]), ("kickcache-b", &[]), ("kickcache-d", &[])];
    let found = found.map(|(name, modules)| (name.to_string(), names(modules))).into();
    assert_eq!(
        differences(&told, &found),
        [
            "kickcache-a: `one` is not in the tree; take it out",
            "kickcache-a: `three` has no place; say what it is",
            "kickcache-c: there is no such crate; take it out",
            "kickcache-d: the crate has no heading; write one",
        ]
    );
}

/// The modules in the tables, by crate.
fn told(text: &str) -> Map {
    let mut map = Map::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            let names: Vec<&str> = title.split(':').next().unwrap_or_default().split(", ").collect();
            current = names.first().map(|name| name.to_string());
            names.iter().for_each(|name| drop(map.insert(name.to_string(), BTreeSet::new())));
        } else if line.starts_with('#') {
            current = None;
        }
        let (Some(name), Some(row)) = (&current, line.strip_prefix("| `")) else { continue };
        let cell = row.split('|').next().unwrap_or_default();
        let words = cell.split(['`', ' ']).map(|word| word.trim_end_matches('/'));
        // A row of a folder below a module explains it further.
        let words = words.filter(|word| !word.is_empty() && !word.contains('/'));
        map.entry(name.clone()).or_default().extend(words.map(str::to_string));
    }
    map
}

fn found(crates: &Path) -> Map {
    let folders = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap());
    let modules = folders.map(|folder| {
        let entries = fs::read_dir(folder.path().join("src")).unwrap().map(|entry| entry.unwrap().path());
        let is_code =
            |path: &std::path::PathBuf| path.is_dir() || path.extension().is_some_and(|end| end == "rs");
        let names =
            entries.filter(is_code).map(|path| path.file_stem().unwrap().to_str().unwrap().to_string());
        let names = names.filter(|name| !NO_MODULES.contains(&name.as_str()));
        (folder.file_name().into_string().unwrap(), names.collect())
    });
    modules.collect()
}

fn differences(told: &Map, found: &Map) -> Vec<String> {
    let mut findings = Vec::new();
    let names: BTreeSet<&String> = told.keys().chain(found.keys()).collect();
    for name in names {
        match (told.get(name), found.get(name)) {
            (Some(told), Some(found)) => {
                let gone = told
                    .difference(found)
                    .map(|module| format!("{name}: `{module}` is not in the tree; take it out"));
                findings.extend(gone);
                let new = found
                    .difference(told)
                    .map(|module| format!("{name}: `{module}` has no place; say what it is"));
                findings.extend(new);
            }
            (Some(_), None) => findings.push(format!("{name}: there is no such crate; take it out")),
            (None, _) => findings.push(format!("{name}: the crate has no heading; write one")),
        }
    }
    findings
}
