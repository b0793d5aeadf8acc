//! Names of types and modules are nouns.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::source::{Source, source};
use crate::workspace::{expect_nothing, sources};

/// Words that name nothing by themselves.
const WORDS: [&str; 96] = [
    "after",
    "afterwards",
    "again",
    "another",
    "answered",
    "anything",
    "apart",
    "aside",
    "asked",
    "asking",
    "awaited",
    "away",
    "before",
    "begun",
    "behind",
    "below",
    "beside",
    "both",
    "carried",
    "chosen",
    "compared",
    "each",
    "else",
    "ended",
    "everything",
    "followed",
    "foretold",
    "forgotten",
    "former",
    "found",
    "gathered",
    "given",
    "gone",
    "held",
    "here",
    "it",
    "joined",
    "joining",
    "kept",
    "known",
    "leaving",
    "left",
    "looked",
    "made",
    "measured",
    "met",
    "missed",
    "named",
    "next",
    "noted",
    "nothing",
    "now",
    "other",
    "others",
    "outdated",
    "outgoing",
    "overtaken",
    "overwritten",
    "own",
    "parted",
    "parting",
    "placed",
    "repeated",
    "said",
    "seen",
    "sent",
    "separated",
    "served",
    "shown",
    "something",
    "standing",
    "started",
    "stored",
    "surveyed",
    "taken",
    "tell",
    "that",
    "them",
    "then",
    "there",
    "thing",
    "told",
    "took",
    "tried",
    "two",
    "unclean",
    "unserved",
    "vanished",
    "waited",
    "walked",
    "watched",
    "what",
    "who",
    "whom",
    "whose",
    "worse",
];

/// By file; an entry that is not needed any more is a finding.
const EXCEPTIONS: &[(&str, &str)] = &[];

static DECLARATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union|mod) (\w+)").unwrap()
});

fn lone_words(source: &Source) -> Vec<(usize, &str)> {
    let declared = DECLARATION.captures_iter(&source.text).filter_map(|found| found.get(1));
    let poor = declared.filter(|name| WORDS.contains(&name.as_str().to_lowercase().as_str()));
    poor.map(|name| (source.text[..name.start()].matches('\n').count() + 1, name.as_str())).collect()
}

fn findings(sources: &[Source], exceptions: &[(&str, &str)]) -> Vec<String> {
    let mut unused: BTreeSet<_> = exceptions.iter().copied().collect();
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (line, name) in lone_words(source) {
            let is_excused = exceptions.contains(&(source.path.as_str(), name));
            unused.remove(&(source.path.as_str(), name));
            let what = format!("`{name}` names nothing by itself; add the noun that it belongs to");
            found.extend((!is_excused).then(|| source.finding(line, &what)));
        }
    }
    found.extend(unused.iter().map(|(path, name)| format!("{path}: `{name}` needs no exception; remove it")));
    found
}

#[test]
fn types_and_modules_are_named_by_nouns() {
    expect_nothing(&findings(&sources(), EXCEPTIONS));
}

#[test]
fn lone_words_are_found_as_names() {
    let file =
        [source("a.rs", "struct LeftDevice;\npub(crate) enum Left {\n    mod told;\ntype Lefts = u8;\n")];
    let found = findings(&file, &[("a.rs", "told"), ("a.rs", "Met")]);
    let expected = [
        "a.rs:2: `Left` names nothing by itself; add the noun that it belongs to",
        "a.rs: `Met` needs no exception; remove it",
    ];
    assert_eq!(found, expected);
}
