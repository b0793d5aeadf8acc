//! The description of an export that clients receive.

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// The export name in the requests of clients; at most 4096 bytes.
    pub name: String,
    /// Clients that request the empty name get this export, unless an export has the empty name; at most one export is
    /// the default.
    pub is_default: bool,
    /// A text for the client's user, cut to 4096 bytes; empty if there is none.
    pub description: String,
    pub size: u64,
    pub read_only: bool,
    /// Clients should treat the export as a rotational disk.
    pub rotational: bool,
}
