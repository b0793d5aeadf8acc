//! Words follow the house rules.

use crate::source::{Source, code_of, source};
use crate::workspace::expect_none;

/// The beginning of a word, the places to check, and the better word.
const WORDS: [(&str, Where, &str); 37] = [
    ("evict", Where::Anywhere, "demote (a clean block), or reclaim (a segment)"),
    ("backing device", Where::Anywhere, "origin"),
    ("backing store", Where::Anywhere, "origin"),
    ("backing disk", Where::Anywhere, "origin"),
    ("cacheline", Where::Anywhere, "block (the processor's: 64 bytes)"),
    ("cache line", Where::Anywhere, "block (the processor's: 64 bytes)"),
    ("destag", Where::Anywhere, "writeback"),
    ("sub-bucket", Where::Anywhere, "segment, batch or block"),
    ("hit rate", Where::Anywhere, "hit ratio"),
    ("writethrough", Where::Prose, "write-through"),
    ("writearound", Where::Prose, "write-around"),
    ("write-back of", Where::Prose, "writeback of (write-back is the mode, writeback the copying)"),
    ("chunk", Where::Prose, "extent, batch or segment (a checkpoint has chunks, and so has an NBD reply)"),
    ("flusher", Where::Anywhere, "writeback"),
    ("fixme", Where::Anywhere, "an issue, or do it"),
    ("todo:", Where::Anywhere, "an issue, or do it"),
    ("xxx", Where::Prose, "an issue, or do it"),
    ("junk", Where::Anywhere, "stale data"),
    ("yesterday", Where::Anywhere, "stale, or written before"),
    ("on trial", Where::Anywhere, "candidate"),
    ("suspects", Where::Anywhere, "candidates"),
    ("contestant", Where::Anywhere, "cache model"),
    ("yardstick", Where::Anywhere, "reference policy"),
    ("world", Where::Anywhere, "fault simulation"),
    ("per byte kept", Where::Anywhere, "write amplification"),
    ("least to most", Where::Anywhere, "min-max"),
    ("devices at work", Where::Anywhere, "utilisation"),
    ("blocks found in the cache", Where::Anywhere, "hit ratio"),
    ("what came out", Where::Anywhere, "results"),
    ("books", Where::Anywhere, "cache metadata"),
    ("spoil", Where::Anywhere, "invalidate"),
    ("must_be_kept", Where::Anywhere, "not clean"),
    ("sum_up", Where::Anywhere, "write the summary"),
    ("settle", Where::Anywhere, "what it does: record, make durable, decide"),
    ("so many", Where::Prose, "this many, or name the number"),
    ("of late ", Where::Prose, "recently"),
    ("for good", Where::Prose, "durably, permanently, or lost"),
];

/// The beginning of the path, the beginning of the word, the reason.
const WORD_EXCEPTIONS: [(&str, &str, &str); 14] = [
    ("crates/kickcache-engine/src/", "chunk", "a checkpoint is written in chunks"),
    ("crates/kickcache-faultsim/src/", "chunk", "a checkpoint is written in chunks"),
    ("crates/kickcache-tidy/tests/tidy/words.rs", "", "this file"),
    ("crates/kickcache-tidy/tests/tidy/glossary.rs", "", "the examples of its tests"),
    ("crates/kickcache-engine/src/cache/", "cache line", "the processor's"),
    ("docs/reference/format.md", "chunk", "a checkpoint is written in chunks"),
    ("docs/reference/configuration.md", "write", "the spellings that are accepted"),
    ("docs/glossary.md", "", "lists the words that are not used"),
    ("crates/kickcache-nbd/src/", "chunk", "the NBD specification's word"),
    ("crates/kickcache/tests/it/", "chunk", "the NBD specification's word"),
    ("crates/kickcache-model/src/", "destag", "what the memory inside a disk drive does"),
    ("crates/kickcache-model/src/device_model/disk/", "settle", "what the head of a disk does"),
    (
        "crates/kickcache-lab/src/cli/simulate/calibrate/fit/rotating.rs",
        "settle",
        "what the head of a disk does",
    ),
    ("crates/kickcache-faultsim/src/oracle/", "settle", "a register settles on a value"),
];

#[derive(Clone, Copy, PartialEq)]
enum Where {
    Anywhere,
    Prose,
}

pub(crate) fn begins_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

fn banned_words(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.lines() {
        let line = line.to_lowercase().replace("checkpoint chunk", "");
        let prose = if source.is_rust() { &line[code_of(&line).len()..] } else { &line };
        for (word, place, better) in WORDS {
            let text = if place == Where::Prose { prose } else { &line };
            if begins_word(text, word) && !is_excused(&source.path, word) {
                found.push(
                    source.finding(number, &format!("`{word}` is not a word of the house; write {better}")),
                );
            }
        }
    }
    found
}

fn is_excused(path: &str, word: &str) -> bool {
    let in_checkpoint = word == "chunk" && path.contains("checkpoint");
    let listed =
        |(file, exception, _): &(&str, &str, &str)| path.starts_with(file) && word.starts_with(exception);
    in_checkpoint || WORD_EXCEPTIONS.iter().any(listed)
}

#[test]
fn words_are_those_of_the_house() {
    expect_none("", banned_words);
}

#[test]
fn foreign_words_are_found() {
    let words = source("docs/a.md", "Evicted lines\nwritethrough\na checkpoint chunk\nmore chunks\n");
    assert_eq!(banned_words(&words).len(), 3);
    assert!(
        banned_words(&source("crates/x/src/a.rs", "Mode::WriteThrough; x.chunks(2); // fine\n")).is_empty()
    );
}
