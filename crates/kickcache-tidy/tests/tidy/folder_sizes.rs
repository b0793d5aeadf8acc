//! A folder has few files.

use std::collections::BTreeMap;

use crate::exceptions::beyond_numbers;
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// Rust files of a folder; files in its subfolders are not counted.
const FILES_MAX: usize = 25;

/// Folders with more files, and their numbers.
const EXCEPTIONS: &str = include_str!("exceptions/folder_sizes.txt");

fn findings(sources: &[Source], exceptions: &str) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let (folder, _) = source.path.rsplit_once('/').unwrap_or_default();
        *counts.entry(folder.to_owned()).or_default() += 1;
    }
    beyond_numbers(&counts, FILES_MAX, exceptions, "group the files of one subject in a folder")
}

#[test]
fn folders_are_small() {
    expect_nothing(&findings(&sources(), EXCEPTIONS));
}

#[test]
fn large_folders_are_found() {
    let files: Vec<Source> = (0..=FILES_MAX).map(|number| source(&format!("a/b/{number}.rs"), "")).collect();
    assert_eq!(
        findings(&files, ""),
        ["a/b: 26, 25 is the limit; group the files of one subject in a folder"]
    );
    assert_eq!(findings(&files[1..], ""), [""; 0]);
    assert_eq!(findings(&files[1..], "a/b 26"), ["a/b: it needs no exception; remove it"]);
}
