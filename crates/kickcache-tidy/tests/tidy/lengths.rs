//! Files and functions are short.

use crate::source::{Source, code_of, source};
use crate::workspace::expect_none;

/// Tests are not counted.
const FILE_LINES_MAX: usize = 500;
/// The beginning of the sentence in the header of a longer file; the reason follows.
const LONG_FILE_REASON: &str = "Over 500 lines because ";
/// From the name to the closing brace.
const FUNCTION_LINES_MAX: usize = 70;

fn long_file(source: &Source) -> Option<String> {
    let count =
        source.product_lines().iter().rposition(|(_, line)| !line.is_empty()).map_or(0, |last| last + 1);
    let excused = source.text.lines().any(|line| line.starts_with("//!") && line.contains(LONG_FILE_REASON));
    let what = format!(
        "{count} lines without tests, {FILE_LINES_MAX} are the limit; split it, or say `//! {LONG_FILE_REASON}...`"
    );
    (count > FILE_LINES_MAX && !excused).then(|| source.finding(1, &what))
}

fn long_functions(source: &Source) -> Vec<String> {
    let lines = source.product_lines();
    let starts = (0..lines.len()).filter(|index| begins_function(lines[*index].1));
    let measured = starts.map(|index| (lines[index].0, function_length(&lines[index..])));
    let long = measured.filter(|(_, length)| *length > FUNCTION_LINES_MAX);
    let what = |length| format!("a function of {length} lines, {FUNCTION_LINES_MAX} are the limit; split it");
    long.map(|(number, length)| source.finding(number, &what(length))).collect()
}

fn begins_function(line: &str) -> bool {
    let is_modifier =
        |word: &&str| word.starts_with("pub") || ["const", "unsafe", "extern", "\"C\""].contains(word);
    code_of(line).split_whitespace().find(|word| !is_modifier(word)) == Some("fn")
}

fn function_length(lines: &[(usize, &str)]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_end = |(index, (_, line)): (usize, &(usize, &str))| {
        let below = indent(line) == indent(lines[0].1) && line.trim_start().starts_with(['}', ')']);
        (index == 0 || below) && line.ends_with(['}', ';'])
    };
    lines.iter().enumerate().position(is_end).map_or(1, |end| end + 1)
}

#[test]
fn files_are_short() {
    expect_none(".rs", long_file);
}

#[test]
fn functions_fit_a_screen() {
    expect_none(".rs", long_functions);
}

#[test]
fn long_files_and_functions_are_found() {
    let body = "    let x = 1;\n".repeat(FUNCTION_LINES_MAX);
    let long =
        source("crates/x/src/a.rs", &format!("fn f() {{}}\npub(crate) fn g(\n) {{\n{body}}}\nfn h();\n"));
    assert_eq!(
        long_functions(&long),
        ["crates/x/src/a.rs:2: a function of 73 lines, 70 are the limit; split it"]
    );
    let lines = "x\n".repeat(FILE_LINES_MAX + 1);
    assert!(long_file(&source("crates/x/src/a.rs", &lines)).is_some());
    assert!(long_file(&source("crates/x/src/a.rs", &format!("//! {LONG_FILE_REASON}y\n{lines}"))).is_none());
    assert!(
        long_file(&source("crates/x/src/a.rs", &format!("x\n#[cfg(test)]\nmod tests {{\n{lines}"))).is_none()
    );
    assert!(long_file(&source("crates/x/src/a/tests.rs", &lines)).is_none());
}
