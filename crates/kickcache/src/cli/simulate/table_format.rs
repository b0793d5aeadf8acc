//! How tables are printed.

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For documents.
    Markdown,
}
