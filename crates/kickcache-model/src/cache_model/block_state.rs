//! Whether the origin has the data of a cached block.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// The origin has the same data.
    Clean,
    /// The block must still be written back.
    Dirty,
}
