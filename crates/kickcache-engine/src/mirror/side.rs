//! One of the two devices of a mirror.

/// A device of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The old cache device; for an operation of an origin, of the memory or of the host, this origin, the memory or
    /// the host.
    Old,
    /// The successor.
    New,
}
