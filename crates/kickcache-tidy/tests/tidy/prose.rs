//! The prose of a file.

use std::sync::LazyLock;

use regex::Regex;

use crate::source::{Source, source};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Page,
    Comment,
    Text,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

static CODE_COMMENT: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*//[/!]? ?(.*)"));
static SCRIPT_COMMENT: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*# ?(.*)"));
static TRAILING_COMMENT: LazyLock<Regex> = LazyLock::new(|| regex(r"[;{},)] // (.*)"));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| regex(r#""((?:[^"\\\n]|\\.)*)""#));
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| regex(r"\{[^}]*\}"));
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"`[\w./:=<>*#$@{}\[\]()?&,+-]+(?: [\w./:=<>-]+)*`"));
static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[([^\]]*)\]\([^)]*\)"));
static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z][A-Za-z'-]*"));

/// `X` replaces names in backticks.
pub(crate) fn word_count(text: &str) -> usize {
    WORD.find_iter(text).count()
}

/// The lines with prose; texts of less than three words and texts of tests are left out.
pub(crate) fn prose(source: &Source) -> Vec<Line> {
    let mut found = Vec::new();
    let mut is_code_block = false;
    for (number, line) in source.text.split('\n').enumerate() {
        let Some((kind, text)) = written_words(source, line) else { continue };
        if text.trim_start().starts_with("```") {
            is_code_block = !is_code_block;
        } else if !is_code_block {
            found.push(Line { number: number + 1, kind, text: without_names(text) });
        }
    }
    found
}

/// The text with `X` in place of names, and links without their addresses.
fn without_names(mut text: String) -> String {
    if text.contains('`') {
        text = NAME.replace_all(&text, "X").into_owned();
    }
    if text.contains("](") {
        text = LINK.replace_all(&text, "$1").into_owned();
    }
    text
}

fn written_words(source: &Source, line: &str) -> Option<(Kind, String)> {
    if source.is_rust() {
        if !line.contains("//") && !line.contains('"') {
            return None;
        }
        return match CODE_COMMENT.captures(line) {
            Some(comment) => Some((Kind::Comment, comment[1].into())),
            None => texts(source, line),
        };
    }
    if source.path.ends_with(".sh") || source.path.ends_with(".toml") {
        let comment = SCRIPT_COMMENT.captures(line).filter(|_| !line.starts_with("#!"))?;
        return Some((Kind::Comment, comment[1].into()));
    }
    Some((Kind::Page, line.into()))
}

fn texts(source: &Source, line: &str) -> Option<(Kind, String)> {
    let code = line.split(" // ").next().unwrap_or_default();
    let quoted = QUOTED.captures_iter(code).filter(|_| !source.is_test());
    let mut parts: Vec<String> =
        quoted.map(|text| PLACEHOLDER.replace_all(&text[1], "X").into_owned()).collect();
    parts.retain(|text| text.split_whitespace().count() > 2);
    let kind = if parts.is_empty() { Kind::Comment } else { Kind::Text };
    parts.extend(TRAILING_COMMENT.captures(line).map(|comment| comment[1].into()));
    (!parts.is_empty()).then(|| (kind, parts.join(". ")))
}

#[test]
fn comments_and_texts_are_prose_and_code_is_not() {
    let lines = |path: &str, text: &str| {
        let kept = prose(&source(path, text)).into_iter().map(|line| (line.number, line.kind, line.text));
        kept.collect::<Vec<_>>()
    };
    let code =
        "//! A b.\nlet x = \"one two {three} four\"; // tail\nf(\"a b\");\n/// ```\n/// code\n/// ```\n";
    let expected =
        [(1, Kind::Comment, "A b.".to_owned()), (2, Kind::Text, "one two X four. tail".to_owned())];
    assert_eq!(lines("crates/x/src/a.rs", code), expected);
    assert_eq!(lines("crates/x/tests/a.rs", "f(\"one two three\");"), []);
    assert_eq!(lines("a.toml", "# Why.\nkey = 1"), [(1, Kind::Comment, "Why.".to_owned())]);
    assert_eq!(
        lines("docs/a.md", "See [this page](b.md), `--flag VALUE`."),
        [(1, Kind::Page, "See this page, X.".to_owned())]
    );
    assert_eq!(word_count("it's X, 4096 write-backs"), 3);
}
