//! Prose is plain: habits of speech stay below a rate.
//!
//! The limits are near the highest rates that the same patterns have in crucible, propolis, redb, quinn and
//! ripgrep.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::prose::{Kind, Line, prose, word_count};
use crate::source::{Source, source};
use crate::workspace::{expect_nothing, texts};

/// A group in a pattern is a continuation that makes the words right.
struct Habit {
    name: &'static str,
    /// For each 100,000 words.
    limit: usize,
    pattern: &'static str,
    remedy: &'static str,
}

const HABITS: [Habit; 7] = [
    Habit {
        name: "what",
        limit: 150,
        pattern: r"\b[Ww]hat(?:ever)?\b( to\b)?",
        remedy: "a noun: `dirty blocks`, not `what is dirty`",
    },
    Habit {
        name: "stand-in",
        limit: 200,
        pattern: r"\b(?:that which|[Tt]hose (?:that|which|who|of)|[Tt]he ones?\b|[Oo]nes? (?:that|which|who|of)|(?:[Aa]ll|[Aa]ny|[Ee]very|[Ss]ome|[Nn]o)(?:thing)? that|nothing but|[Ww]hichever|[Ww]ho(?:m|se|ever)?\b|(?:of|by|for|from|to|with) (?:which|whom))\b",
        remedy: "repeat the noun",
    },
    Habit {
        name: "nobody",
        limit: 140,
        pattern: r"\b(?:[Nn]obody|[Ss]omebody|[Ss]omeone|[Aa]nybody|[Aa]nyone|[Ee]verybody|[Nn]o one|[Nn]othing|[Ee]verything)\b",
        remedy: "name the client, the daemon, the administrator",
    },
    Habit {
        name: "speech",
        limit: 80,
        pattern: r"\b(?:tells?|telling|told|says?|said|saying|asks?|asked|asking|speaks?|spoken?|hears?|heard|forgets?|forgotten|(?:knows?|known|wants?|wanted) of)\b",
        remedy: "reports, requests, records, drops",
    },
    Habit {
        name: "motion",
        limit: 100,
        pattern: r"\b(?:comes?|came|goes|went|gone|stands?|stood|lies|lets? go|gives? way|by now|anew|in vain|on its way|for want of|under way|all the same|but for|beside)\b",
        remedy: "is stored, arrives, is removed, again, without",
    },
    Habit {
        name: "pronoun",
        limit: 40,
        pattern: r"\bof (?:it|them|that|those)\b( [a-z]+s\b)?",
        remedy: "of the block, of the volume",
    },
    Habit {
        name: "passive",
        limit: 70,
        pattern: r"\b(?:is|are|was|were|been?) (?:said|told|asked|taken|given|noted|let|spoken|gone|begun|had)\b",
        remedy: "the actor as the subject",
    },
];
/// In the order of the habits.
static PATTERNS: LazyLock<[Regex; 7]> =
    LazyLock::new(|| HABITS.each_ref().map(|habit| Regex::new(habit.pattern).unwrap()));

/// Most lines match no pattern.
static ANY: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(HABITS.each_ref().map(|habit| habit.pattern)).unwrap());

const LONG_SENTENCE: &str = "long sentence";
/// For each 100,000 words.
const LONG_SENTENCES_MAX: usize = 510;
const SENTENCE_WORDS_MAX: usize = 35;
/// Rows and entries of lists are sentences.
static SENTENCE_END: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[.!?:;]\s+|\n\s*\n|\n\s*[-*|] ").unwrap());

const HELP: &str = "crates/kickcache/src/cli/help.txt";
const STRICT: [&str; 2] = ["README.md", HELP];
const MESSAGES: &str = "messages of all crates";
const FINDINGS_MAX: usize = 20;

fn areas(path: &str, kind: Kind) -> Vec<String> {
    let mut folders = path.split('/');
    let first = folders.next().unwrap_or_default();
    let mut found = vec![first.to_owned()];
    if first == "crates" {
        found.push(format!("crates/{}", folders.next().unwrap_or_default()));
        found.extend((kind == Kind::Text).then(|| MESSAGES.to_owned()));
        found.extend((path == HELP).then(|| HELP.to_owned()));
    }
    found
}

#[derive(Default)]
struct Count {
    words: usize,
    /// By the name of the habit.
    places: BTreeMap<&'static str, Vec<String>>,
}

impl Count {
    fn excess(&self, area: &str, (name, limit, remedy): (&str, usize, &str)) -> Vec<String> {
        let none = Vec::new();
        let places = self.places.get(name).unwrap_or(&none);
        let is_strict = STRICT.contains(&area) && name != LONG_SENTENCE;
        let is_over =
            places.len() * 100_000 > limit * self.words && places.len() > (self.words / 2000).max(1);
        if !(is_over || (is_strict && !places.is_empty())) {
            return Vec::new();
        }
        let shown = places.len().min(FINDINGS_MAX);
        let summary = format!(
            "{} of {} times in {area}, {} words; the limit is {} for each 100,000 words; {remedy}",
            shown,
            places.len(),
            self.words,
            if is_strict { 0 } else { limit }
        );
        places[..shown].iter().map(|place| format!("{place}: {name}: {summary}")).collect()
    }
}

fn count(sources: &[Source]) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for source in sources {
        let lines = prose(source);
        for line in &lines {
            let words = word_count(&line.text);
            let habits = habits_of(&line.text);
            for area in areas(&source.path, line.kind) {
                let count = counts.entry(area).or_default();
                count.words += words;
                for name in &habits {
                    count.places.entry(name).or_default().push(format!("{}:{}", source.path, line.number));
                }
            }
        }
        for (number, kind) in long_sentences(&lines) {
            for area in areas(&source.path, kind) {
                let places = &mut counts.entry(area).or_default().places;
                places.entry(LONG_SENTENCE).or_default().push(format!("{}:{number}", source.path));
            }
        }
    }
    counts
}

/// Once for each hit.
fn habits_of(text: &str) -> Vec<&'static str> {
    let hits = |pattern: &Regex| {
        let all = pattern.captures_iter(text);
        all.filter(|hit| hit.iter().skip(1).all(|group| group.is_none())).count()
    };
    let present = ANY.matches(text).into_iter();
    present.flat_map(|index| std::iter::repeat_n(HABITS[index].name, hits(&PATTERNS[index]))).collect()
}

fn long_sentences(lines: &[Line]) -> Vec<(usize, Kind)> {
    let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    let mut start = 0;
    let ends =
        SENTENCE_END.find_iter(&text).map(|end| end.range()).chain(std::iter::once(text.len()..text.len()));
    for end in ends {
        if word_count(&text[start..end.start]) > SENTENCE_WORDS_MAX {
            let line = &lines[text[..start].matches('\n').count()];
            found.push((line.number, line.kind));
        }
        start = end.end;
    }
    found
}

fn excesses(sources: &[Source]) -> Vec<String> {
    let long = (LONG_SENTENCE, LONG_SENTENCES_MAX, "at most 35 words");
    let mut rules = HABITS.each_ref().map(|habit| (habit.name, habit.limit, habit.remedy)).to_vec();
    rules.push(long);
    let counts = count(sources);
    let all = counts.iter().flat_map(|(area, count)| rules.iter().map(move |rule| (area, count, *rule)));
    all.flat_map(|(area, count, rule)| count.excess(area, rule)).collect()
}

#[test]
fn prose_is_plain() {
    expect_nothing(&excesses(&texts()));
}

#[test]
fn each_habit_is_found() {
    let examples = [
        ("what", "What is dirty, and whatever else is read. What to do"),
        ("stand-in", "Those that wait, and the one next to them"),
        ("nobody", "Nobody writes, and nothing is read"),
        ("speech", "The device tells the daemon, which knows of the volume; he knows"),
        ("motion", "A block comes and goes; welcome"),
        ("pronoun", "A part of it, and of them; of those blocks"),
        ("passive", "It is told, and was given; was giving"),
    ];
    for (name, text) in examples {
        let hits = habits_of(text).iter().filter(|hit| **hit == name).count();
        assert_eq!(hits, 2, "{name}: {:?}", habits_of(text));
    }
}

#[test]
fn an_area_over_a_limit_lists_its_places() {
    let plain = "A block is read. ".repeat(100);
    let page = |text: &str| excesses(&[source("docs/a.md", &format!("# T\n{plain}\n{text}\n"))]);
    assert_eq!(page("What is dirty."), Vec::<String>::new());
    let found = page("What is dirty.\nWhat is clean.");
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("docs/a.md:3: what: 2 of 2 times in docs, 407 words;"), "{found:?}");
    assert_eq!(excesses(&[source("README.md", "Nothing is read.")]).len(), 1);
}

#[test]
fn long_sentences_are_found_where_they_begin() {
    let long = "word ".repeat(36);
    let page = source("docs/a.md", &format!("Short.\n\n{long}\nend. Short.\n{long}end.\n"));
    assert_eq!(long_sentences(&prose(&page)), [(3, Kind::Page), (5, Kind::Page)]);
    assert_eq!(excesses(&[page]).len(), 2);
    assert!(long_sentences(&prose(&source("docs/a.md", &"- word word\n".repeat(40)))).is_empty());
}

#[test]
fn messages_are_counted_by_themselves() {
    assert_eq!(areas("crates/x/src/a.rs", Kind::Text), ["crates", "crates/x", MESSAGES]);
    assert_eq!(areas("crates/x/src/a.rs", Kind::Comment), ["crates", "crates/x"]);
    assert_eq!(areas("docs/a.md", Kind::Page), ["docs"]);
}
