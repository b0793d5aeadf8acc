//! The description of an export that clients receive.

/// The properties of an export that the server reports to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// The export name in the requests of clients; at most 4096 bytes.
    pub name: String,
    /// It answers to the empty name, too; one at most.
    pub is_default: bool,
    /// A text for the client's user.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Clients should treat it as a rotational disk.
    pub rotational: bool,
}
