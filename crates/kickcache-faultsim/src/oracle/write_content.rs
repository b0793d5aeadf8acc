//! The content of a write.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteContent {
    /// Bytes that contain the version of the write.
    Stamps,
    Zeroes,
}
