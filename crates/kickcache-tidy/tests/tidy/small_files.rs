//! A small file has several importers.

use std::collections::BTreeMap;

use crate::code::module_graph::{arrows, root_files};
use crate::exceptions::beyond;
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// The least lines of code of a file with one importer; comments, blank lines and tests are not counted.
const LINES: usize = 40;

const EXCEPTIONS: &str = include_str!("exceptions/small_files.txt");

fn code_lines(source: &Source) -> usize {
    source.code().filter(|(_, code)| !code.trim().is_empty()).count()
}

/// As in `kickcache_daemon::serve::config`.
fn outer_name(path: &str) -> Option<String> {
    let (name, module) = path.strip_prefix("crates/")?.split_once("/src/")?;
    Some(format!("{}::{}", name.replace('-', "_"), module.trim_end_matches(".rs").replace('/', "::")))
}

fn findings(sources: &[Source]) -> BTreeMap<String, String> {
    let mut importers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root_file in root_files(sources) {
        for (file, needed) in arrows(sources, root_file) {
            needed.into_keys().for_each(|other| importers.entry(other).or_default().push(file.clone()));
        }
    }
    let is_index = |path: &str| ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| path.ends_with(name));
    let is_named_outside = |source: &Source| {
        outer_name(&source.path).is_some_and(|name| sources.iter().any(|other| other.text.contains(&name)))
    };
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_index(&source.path)) {
        let Some([importer]) = importers.get(&source.path).map(Vec::as_slice) else { continue };
        let lines = code_lines(source);
        if lines < LINES && !is_named_outside(source) {
            let what = format!(
                "{}: {lines} lines of code, and only {importer} needs them; move them there",
                source.path
            );
            found.insert(source.path.clone(), what);
        }
    }
    found
}

#[test]
fn a_small_file_has_several_importers() {
    expect_nothing(&beyond(findings(&sources()), EXCEPTIONS));
}

#[test]
fn small_files_with_one_importer_are_found() {
    let long = format!("pub struct Long;\n{}", "fn f() {}\n".repeat(LINES));
    let files = [
        ("x/src/lib.rs", "mod a; mod b; mod c; mod long; mod open; mod shared;"),
        ("x/src/a.rs", "use crate::b::B;\nuse crate::shared::S;\npub struct A(B, S);"),
        ("x/src/b.rs", "/// Commented.\npub struct B;\n\n// Commented.\n"),
        (
            "x/src/c.rs",
            "use crate::a::A;\nuse crate::long::Long;\nuse crate::open::O;\nuse crate::shared::S;",
        ),
        ("x/src/long.rs", &long),
        ("x/src/open.rs", "pub struct O;"),
        ("x/src/shared.rs", "pub struct S;"),
        ("y/src/lib.rs", "use x::open::O;"),
    ];
    let files = files.map(|(path, text)| source(&format!("crates/{path}"), text));
    let found: Vec<String> = findings(&files).into_values().collect();
    assert_eq!(
        found,
        [
            "crates/x/src/a.rs: 3 lines of code, and only crates/x/src/c.rs needs them; move them there",
            "crates/x/src/b.rs: 1 lines of code, and only crates/x/src/a.rs needs them; move them there",
        ]
    );
}
