//! One of the two devices of a mirror.

/// A device of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The old cache device; also any target that is not a cache device.
    Old,
    /// The successor.
    New,
}
