//! What a step takes from a stream.

/// Bytes that were taken from the front of a stream, and what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken<T> {
    /// How many bytes; whoever owns the stream drops them.
    pub consumed: usize,
    /// What they mean.
    pub meaning: T,
}

impl<T> Taken<T> {
    pub(crate) const fn new(consumed: usize, meaning: T) -> Taken<T> {
        Taken { consumed, meaning }
    }
}
