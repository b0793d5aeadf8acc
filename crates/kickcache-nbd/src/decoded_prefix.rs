//! The bytes that a step consumes from a stream.

/// The bytes consumed from the front of a stream, and their meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodedPrefix<T> {
    /// The number of consumed bytes; the owner of the stream drops them.
    pub consumed: usize,
    pub meaning: T,
}

impl<T> DecodedPrefix<T> {
    pub(crate) const fn new(consumed: usize, meaning: T) -> DecodedPrefix<T> {
        DecodedPrefix { consumed, meaning }
    }
}
