//! The traces that a bench is told.

use std::path::{Path, PathBuf};

/// The trace files among some words, and those of the directories among them, sorted; options are left out. A path that
/// leads nowhere ends the bench.
pub(crate) fn named_traces(words: &[String]) -> Vec<PathBuf> {
    let paths = words.iter().filter(|word| !word.starts_with("--")).map(Path::new);
    if let Some(path) = paths.clone().find(|path| !path.exists()) {
        eprintln!("nothing at {}: name traces by their full path, cargo changes the folder", path.display());
        std::process::exit(2);
    }
    let mut files: Vec<PathBuf> = paths.flat_map(files_of).collect();
    files.sort();
    files
}

fn files_of(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).expect("the directory can be read");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| file.extension().is_none_or(|extension| extension != "md")).collect()
}
