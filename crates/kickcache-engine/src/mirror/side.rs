//! One of the two devices of a mirror.

/// A device of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The old cache device; or, for an operation of an origin, the origin.
    Old,
    /// The successor.
    New,
}
