//! An export as clients are told of it.

/// What clients are told of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// The name clients ask for; at most 4096 bytes.
    pub name: String,
    /// It answers to the empty name, too; one at most.
    pub is_default: bool,
    /// A text for the client's user.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Clients should treat it as a disk whose head moves.
    pub rotational: bool,
}
