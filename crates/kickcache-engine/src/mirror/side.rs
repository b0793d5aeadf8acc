//! One of the two devices of a mirror.

/// A device of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The cache device, or the other device of the submission.
    Old,
    /// The successor.
    New,
}
