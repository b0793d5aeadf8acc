//! Tests that documents name as proof exist.

use std::collections::BTreeSet;

use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

const DOCUMENTS: [&str; 3] = ["docs/dev/facts.md", "docs/dev/testing.md", "docs/dev/threats.md"];

fn functions(sources: &[Source]) -> BTreeSet<&str> {
    let rust = sources.iter().filter(|source| source.path.ends_with(".rs"));
    rust.flat_map(|source| source.text.split("fn ").skip(1))
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default())
        .collect()
}

/// Names between backticks, after the name of a module.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        text.bytes()
            .all(|byte| byte == b'_' || byte == b':' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    quoted.filter(is_path).filter_map(|text| text.rsplit_once("::")).map(|(_, name)| name)
}

fn missing(document: &Source, functions: &BTreeSet<&str>) -> Vec<String> {
    let lines = document.text.lines().zip(1..);
    let unknown = lines.flat_map(|(line, number)| named(line).map(move |name| (name, number)));
    let unknown = unknown.filter(|(name, _)| !functions.contains(name));
    let say = |(name, number)| {
        document.finding(number, &format!("no test is called {name}; name the one that shows this"))
    };
    unknown.map(say).collect()
}

#[test]
fn every_test_that_a_document_names_is_there() {
    let sources = sources();
    let functions = functions(&sources);
    let documents = sources.iter().filter(|source| DOCUMENTS.contains(&source.path.as_str()));
    expect_nothing(&documents.flat_map(|document| missing(document, &functions)).collect::<Vec<_>>());
}

#[test]
fn a_name_without_a_test_is_found() {
    let code = [source("a.rs", "#[test]\nfn it_holds() {}\n")];
    let document = source(
        "docs/dev/threats.md",
        "| `a::it_holds` | `a::it_does_not` `a::*` `Engine::check` `cargo x::y z` |\n",
    );
    let found = missing(&document, &functions(&code));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("it_does_not"), "{found:?}");
}
