//! The kind of submission that crashes wait for.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// None: the crash happens at any time.
    Anything,
    Checkpoint,
    Records,
    /// The end of a write to an origin, while the record that the cache dropped an older copy of its block is not
    /// durable.
    Forgotten,
    /// The marks of a cache device that is put out of service, or the host's record.
    Marks,
    /// A mark, or the host's record, that declares some of the volumes complete.
    Complete,
    /// A flush of an origin.
    OriginFlush,
    /// A submission that fails.
    Failure,
    /// The end of a drain.
    Drained,
}
