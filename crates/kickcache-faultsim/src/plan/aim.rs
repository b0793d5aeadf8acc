//! What a crash waits for.

/// What a crash waits for, so that it comes while that is on its way to the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// Nothing: it comes at any time.
    Anything,
    /// A part of a checkpoint.
    Checkpoint,
    /// Records.
    Records,
    /// The end of an origin's write of a block whose older copy the cache has forgotten, but not put that on record yet.
    Forgotten,
    /// The marks of a cache device that went out of service, or the host's note.
    Marks,
    /// A durable mark, or the host's note, that calls some of the volumes complete.
    Complete,
}
