//! Gives each file of a corpus to a harness, as `cargo test` does without a fuzzer.

use std::fs;
use std::path::Path;

/// Runs every file of a target's corpus, which holds at least this many.
///
/// # Panics
/// If the corpus cannot be read, or files are missing.
pub(crate) fn replay(target: &str, least: usize, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in &files {
        eprintln!("{}", path.display());
        run(&fs::read(path).unwrap());
    }
    assert!(files.len() >= least, "{} holds only {} files", folder.display(), files.len());
}
