//! Determines which of two devices is the cache, from their superblocks.

use crate::format::superblock::Superblock;
use crate::format::takeover::Takeover;

/// Which of two devices of one cache is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Succession {
    /// The old device.
    Old,
    /// The new device.
    New,
    /// The new device, although its superblock is not complete.
    NewToComplete,
    /// The two devices do not belong to one replacement, or their states contradict each other.
    Unrelated,
}

/// Determines which of two devices is the cache.
pub fn succession(old: &Superblock, new: &Superblock) -> Succession {
    if old.uuid != new.uuid {
        return Succession::Unrelated;
    }
    match (&old.takeover, &new.takeover) {
        (Takeover::Replaced(by), Takeover::Incomplete(from))
            if by.uuid == from.uuid || mutant!(SuccessorOfAnother) =>
        {
            Succession::NewToComplete
        }
        (Takeover::Replaced(_), Takeover::None | Takeover::Begun(_) | Takeover::Replaced(_))
            if new.starts > old.starts || mutant!(OlderSuccessor) =>
        {
            Succession::New
        }
        (Takeover::None | Takeover::Begun(_), Takeover::Incomplete(_)) => Succession::Old,
        _ => Succession::Unrelated,
    }
}
