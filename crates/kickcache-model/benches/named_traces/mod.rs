//! The traces named on the command line of a bench.

use std::path::{Path, PathBuf};

use kickcache_model::trace_file::folder::files;

/// The trace files among some arguments, and the files of the directories among them, sorted; options are
/// skipped.
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
