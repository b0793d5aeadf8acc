//! Every file states its purpose.

use crate::source::{Source, source};
use crate::workspace::expect_none;

fn missing_header(source: &Source) -> Option<String> {
    let first = source.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    let first = first.unwrap_or_default();
    let what = "no header; begin with `//! ` and one sentence about what the file is for";
    (!first.starts_with("//! ") && !source.is_test_module()).then(|| source.finding(1, what))
}

fn missing_title(source: &Source) -> Option<String> {
    let what = "no title; begin with `# ` and what the page is about";
    (!source.text.starts_with("# ")).then(|| source.finding(1, what))
}

#[test]
fn every_file_has_a_header() {
    expect_none(".rs", missing_header);
}

#[test]
fn every_document_has_a_title() {
    expect_none(".md", missing_title);
}

#[test]
fn missing_headers_and_titles_are_found() {
    assert!(missing_header(&source("a.rs", "\nuse x;\n")).is_some());
    assert!(missing_title(&source("a.md", "x\n")).is_some());
}
