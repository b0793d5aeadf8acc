//! The traces that a bench is told.

use std::path::{Path, PathBuf};

use kickcache_model::trace_file::folder::files;

/// The trace files among some words, and those of the directories among them, sorted; options are left out. A path that
/// leads nowhere ends the bench.
pub(crate) fn named_traces(words: &[String]) -> Vec<PathBuf> {
    let paths = words.iter().filter(|word| !word.starts_with("--")).map(Path::new);
    if let Some(path) = paths.clone().find(|path| !path.exists()) {
        eprintln!("nothing at {}: name traces by their full path, cargo changes the folder", path.display());
        std::process::exit(2);
    }
    let mut found: Vec<PathBuf> =
        paths.flat_map(|path| files(path).expect("the directory can be read")).collect();
    found.sort();
    found
}
