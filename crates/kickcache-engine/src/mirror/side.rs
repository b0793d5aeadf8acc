//! One of the two devices of a mirror.

/// A device of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The cache device, or whatever else the submission names.
    Old,
    /// The device that is to take over.
    New,
}
