//! The files of the workspace, and the report of findings.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files and documents of the workspace.
pub(crate) fn sources() -> Vec<Source> {
    files(&[".rs", ".md"])
}

pub(crate) fn texts() -> Vec<Source> {
    files(&[".rs", ".md", ".toml", ".sh", "help.txt"])
}

fn files(ends: &[&str]) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                let skipped =
                    name.starts_with('.') || ["target", "corpus", "artifacts"].contains(&name.as_str());
                folders.extend((!skipped).then_some(path));
            } else if ends.iter().any(|end| name.ends_with(end)) {
                let text = fs::read_to_string(root.join(&path)).unwrap();
                found.push(Source { path: path.display().to_string(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "the workspace was not found at {}", root.display());
    found
}

#[track_caller]
pub(crate) fn expect_none<I: IntoIterator<Item = String>>(extension: &str, check: impl Fn(&Source) -> I) {
    let sources = sources();
    let wanted = sources.iter().filter(|source| source.path.ends_with(extension));
    expect_nothing(&wanted.flat_map(check).collect::<Vec<_>>());
}

#[track_caller]
pub(crate) fn expect_nothing(found: &[String]) {
    assert!(found.is_empty(), "the house is untidy:\n  {}\n", found.join("\n  "));
}
