//! What a write stores.

/// What a write stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteContent {
    /// Bytes that name the write.
    Stamps,
    /// Zeroes.
    Zeroes,
}
