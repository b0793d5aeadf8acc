//! The house rules that neither rustfmt nor clippy checks.
//!
//! Most exceptions are rows in a rule's table, or lines in a list below `exceptions/`.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

mod circles;
mod code;
mod crates;
mod dead_files;
mod exceptions;
mod flags;
mod folder_circles;
mod folder_sizes;
mod glossary;
mod habits;
mod headers;
mod invariants;
mod lengths;
mod named_tests;
mod names;
mod prose;
mod small_files;
mod source;
mod test_names;
mod tuples;
mod type_definitions;
mod type_names;
mod words;
mod workspace;
