//! Exceptions of a rule: a list that may only shrink.

use std::collections::BTreeMap;

/// Lines that begin with `#` are comments.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The findings without an entry in the list, and the entries without a finding.
pub(crate) fn beyond(mut found: BTreeMap<String, String>, list: &str) -> Vec<String> {
    let unused = entries(list).filter(|key| found.remove(*key).is_none());
    let unused: Vec<String> = unused.map(|key| format!("{key}: it needs no exception; remove it")).collect();
    found.into_values().chain(unused).collect()
}

/// The numbers above `most` that differ from the list, and the entries of the list without a number above
/// `most`.
pub(crate) fn beyond_numbers(
    found: &BTreeMap<String, usize>,
    most: usize,
    list: &str,
    remedy: &str,
) -> Vec<String> {
    let row = |line: &str| {
        let (key, number) = line.rsplit_once(' ').expect("a key and a number");
        (key.to_owned(), number.parse().expect("a number"))
    };
    let mut listed: BTreeMap<String, usize> = entries(list).map(row).collect();
    let mut findings = Vec::new();
    for (key, number) in found.iter().filter(|(_, number)| **number > most) {
        match listed.remove(key).unwrap_or(most) {
            limit if *number > limit => {
                findings.push(format!("{key}: {number}, {limit} is the limit; {remedy}"));
            }
            limit if *number < limit => {
                findings.push(format!("{key}: {number}, the list has {limit}; lower it"));
            }
            _ => {}
        }
    }
    findings.extend(listed.into_keys().map(|key| format!("{key}: it needs no exception; remove it")));
    findings
}

#[test]
fn exceptions_that_are_not_needed_are_found() {
    let found = || BTreeMap::from(["a", "b"].map(|key| (key.to_owned(), format!("{key}: bad"))));
    assert_eq!(beyond(found(), "# a comment\na\nb\n"), [""; 0]);
    assert_eq!(beyond(found(), "a\nc\n"), ["b: bad", "c: it needs no exception; remove it"]);
}

#[test]
fn numbers_only_shrink() {
    let found = BTreeMap::from(
        [("a", 3), ("b", 1), ("c", 5), ("d", 2)].map(|(key, number)| (key.to_owned(), number)),
    );
    assert_eq!(beyond_numbers(&found, 1, "a 3\nc 5\nd 2", "split it"), [""; 0]);
    assert_eq!(
        beyond_numbers(&found, 1, "a 4\nb 1\nc 4", "split it"),
        [
            "a: 3, the list has 4; lower it",
            "c: 5, 4 is the limit; split it",
            "d: 2, 1 is the limit; split it",
            "b: it needs no exception; remove it",
        ]
    );
}
