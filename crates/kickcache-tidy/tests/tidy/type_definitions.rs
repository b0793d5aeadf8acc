//! A public type name has one definition in the workspace.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::exceptions::beyond_numbers;
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// Names with more definitions, and their numbers.
const EXCEPTIONS: &str = include_str!("exceptions/type_definitions.txt");

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*pub(?:\([^)]*\))? (?:unsafe )?(?:struct|enum|trait|type|union) (\w+)").unwrap()
});

fn findings(sources: &[Source], exceptions: &str) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (_, line) in source.code() {
            if let Some(name) = DEFINITION.captures(line).and_then(|found| found.get(1)) {
                *counts.entry(name.as_str().to_owned()).or_default() += 1;
            }
        }
    }
    beyond_numbers(&counts, 1, exceptions, "name the other thing by a noun of its own")
}

#[test]
fn a_public_type_name_is_defined_once() {
    expect_nothing(&findings(&sources(), EXCEPTIONS));
}

#[test]
fn names_with_two_definitions_are_found() {
    let files = [
        source(
            "a.rs",
            "pub struct Place;\nstruct Order;\n#[cfg(test)]\nmod tests {\n    pub struct Order;\n}\n",
        ),
        source("b.rs", "    pub(crate) enum Place {}\npub type Order = u8;\n// pub struct Order\n"),
    ];
    assert_eq!(findings(&files, ""), ["Place: 2, 1 is the limit; name the other thing by a noun of its own"]);
    assert_eq!(findings(&files, "Place 3"), ["Place: 2, the list has 3; lower it"]);
}
