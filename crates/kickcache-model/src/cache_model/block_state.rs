//! Whether the origin has what a cached block holds.

/// The state of a cached block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// The origin has it.
    Clean,
    /// It must still be written back.
    Dirty,
}
