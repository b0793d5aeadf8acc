//! The glossary decides synonyms: its `not:` words are not used in prose.

use std::sync::LazyLock;

use regex::Regex;

use crate::prose::prose;
use crate::source::{Source, source};
use crate::words::begins_word;
use crate::workspace::{expect_nothing, root, texts};

const GLOSSARY: &str = "docs/glossary.md";
/// Behind a definition: words that no prose uses.
const NEVER: &str = "`not:`";
/// Behind a definition: words that have a right meaning elsewhere.
const NOT_HERE: &str = "`not here:`";

/// The beginning of the path, the word (empty for all), the reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    (GLOSSARY, "", "lists the words"),
    ("crates/kickcache-tidy/tests/tidy/", "", "the house rules name the words"),
    ("crates/kickcache-model/src/device_model/", "destage", "of the memory inside a disk drive"),
];

static ENTRY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^- \*\*([^*]+)\*\*.*: \S").unwrap());
static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").unwrap());

#[derive(PartialEq, Eq, Debug)]
struct Synonym {
    word: String,
    term: String,
}

/// The words that no prose uses, or the line of an entry without a term and a definition.
fn synonyms(glossary: &str) -> Result<Vec<Synonym>, String> {
    let mut found = Vec::new();
    for line in glossary.lines().filter(|line| line.starts_with("- ")) {
        let entry = ENTRY.captures(line).ok_or_else(|| format!("`{line}` is no `- **term**: definition`"))?;
        let words = line.split_once(NEVER).map_or("", |(_, words)| words);
        let words = words.split_once(NOT_HERE).map_or(words, |(words, _)| words);
        let words = QUOTED.captures_iter(words).map(|word| word[1].to_lowercase());
        found.extend(words.map(|word| Synonym { word, term: entry[1].into() }));
    }
    Ok(found)
}

fn uses(source: &Source, synonyms: &[Synonym]) -> Vec<String> {
    let excused = |word: &str| {
        EXCEPTIONS.iter().any(|(path, of, _)| source.path.starts_with(path) && (of.is_empty() || *of == word))
    };
    let mut found = Vec::new();
    for line in prose(source) {
        let text = line.text.to_lowercase();
        let used =
            synonyms.iter().filter(|synonym| begins_word(&text, &synonym.word) && !excused(&synonym.word));
        found.extend(used.map(|Synonym { word, term }| {
            source.finding(line.number, &format!("`{word}` is not used here; the glossary has {term}"))
        }));
    }
    found
}

#[test]
fn prose_has_the_terms_of_the_glossary() {
    let glossary = std::fs::read_to_string(root().join(GLOSSARY)).unwrap();
    let synonyms = synonyms(&glossary).unwrap();
    assert!(synonyms.len() > 30, "the glossary has {} words that are not used", synonyms.len());
    expect_nothing(&texts().iter().flat_map(|source| uses(source, &synonyms)).collect::<Vec<_>>());
}

#[test]
fn synonyms_of_the_glossary_are_found() {
    let glossary =
        "# T\n- **origin** (`x`): a disk. `not:` `Backing disk`, `store` `not here:` `old`\n- **b**: c.\n";
    let synonyms = synonyms(glossary).unwrap();
    let words: Vec<_> = synonyms.iter().map(|synonym| synonym.word.as_str()).collect();
    assert_eq!(words, ["backing disk", "store"]);
    let page = source("docs/a.md", "An old page.\nTwo backing disks, restored.\n");
    assert_eq!(
        uses(&page, &synonyms),
        ["docs/a.md:2: `backing disk` is not used here; the glossary has origin"]
    );
    assert!(uses(&source("a.rs", "let x = backing_disk;"), &synonyms).is_empty());
}

#[test]
fn an_entry_without_a_definition_is_found() {
    assert!(synonyms("- **origin**\n").is_err());
    assert!(synonyms("- origin: a disk.\n").is_err());
}
