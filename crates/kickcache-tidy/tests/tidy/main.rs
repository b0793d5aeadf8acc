//! The house rules that neither rustfmt nor clippy checks: lengths, words, import directions, circles, dead files,
//! titles.
//!
//! Each finding is one line, `path:line: finding; remedy`. An exception is a row in one of the rules' tables, with its
//! reason.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

mod circles;
mod crates;
mod dead_files;
mod flags;
mod glossary;
mod habits;
mod headers;
mod lengths;
mod module_graph;
mod named_tests;
mod names;
mod paths;
mod prose;
mod source;
mod test_names;
mod tokens;
mod tuples;
mod type_names;
mod words;
mod workspace;
