//! What may be lost when a volume is served no longer.

/// What becomes of the clients of a volume that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// The volume stays while it has any.
    Respected,
    /// They are disconnected.
    Disconnected,
}

/// What becomes of the dirty blocks of a volume that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyFate {
    /// They are written back before.
    WrittenBack,
    /// They are lost.
    Abandoned,
}
