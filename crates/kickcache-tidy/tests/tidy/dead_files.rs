//! Every Rust file of a crate is found by cargo or reached by a `mod`.

use std::collections::BTreeSet;

use crate::source::{Source, code_of, source};
use crate::workspace::{expect_nothing, sources};

fn is_target(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let [.., folder, file] = parts[..] else { return true };
    match (folder, file) {
        ("src", "lib.rs" | "main.rs") | (_, "build.rs") | ("bin", _) => true,
        ("tests" | "benches" | "examples" | "fuzz_targets", _) | (_, "main.rs") => {
            !path.contains("/src/") || path.contains("/src/bin/")
        }
        _ => false,
    }
}

fn declared(source: &Source) -> Vec<String> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let stem = file.trim_end_matches(".rs");
    let owns_folder = is_target(&source.path) || stem == "mod";
    let folder = if owns_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let modules = source.text.lines().filter_map(|line| {
        let (before, name) = code_of(line).trim().strip_suffix(';')?.rsplit_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then_some(name)
    });
    modules.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]).collect()
}

fn dead_files(sources: &[Source]) -> Vec<String> {
    let rust: Vec<&Source> = sources.iter().filter(|source| source.is_rust()).collect();
    let targets = rust.iter().filter(|source| is_target(&source.path));
    let mut alive: BTreeSet<String> = targets.map(|source| source.path.clone()).collect();
    loop {
        let parents = rust.iter().filter(|source| alive.contains(&source.path));
        let reached: Vec<String> = parents.flat_map(|source| declared(source)).collect();
        let before = alive.len();
        alive.extend(reached);
        if alive.len() == before {
            break;
        }
    }
    // The fuzz targets are no part of the workspace.
    let dead =
        rust.iter().filter(|source| !alive.contains(&source.path) && source.path.starts_with("crates/"));
    dead.map(|source| source.finding(1, "no `mod` leads here; declare it or delete it")).collect()
}

#[test]
fn no_file_is_dead() {
    expect_nothing(&dead_files(&sources()));
}

#[test]
fn files_without_a_parent_are_found() {
    let files = ["lib.rs", "a.rs", "a/b.rs", "c/mod.rs", "d.rs"].map(|name| format!("crates/x/src/{name}"));
    let texts = ["mod a;\npub mod c;\n", "pub(crate) mod b;\n", "", "", "mod e;\n"];
    let sources: Vec<Source> = files.iter().zip(texts).map(|(path, text)| source(path, text)).collect();
    assert_eq!(dead_files(&sources), ["crates/x/src/d.rs:1: no `mod` leads here; declare it or delete it"]);
}
