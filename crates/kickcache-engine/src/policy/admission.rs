//! Which misses are promoted.

use crate::config::Admission;

/// How hard it is at the moment to make room in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    /// Segments are ready.
    None,
    /// Reclaim runs behind.
    High,
}

/// The answer for one miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// Promote it.
    Promote,
    /// Serve it past the cache, and remember that it was asked for.
    Remember,
}

/// Decides; `known` says that ghost memory remembers the block.
pub(crate) const fn choose(admission: Admission, pressure: Pressure, known: bool) -> Choice {
    match (admission, pressure) {
        (Admission::Always, _) | (Admission::Pressure, Pressure::None) => Choice::Promote,
        (Admission::Pressure, Pressure::High) | (Admission::SecondTouch, _) => {
            if known {
                Choice::Promote
            } else {
                Choice::Remember
            }
        }
    }
}
