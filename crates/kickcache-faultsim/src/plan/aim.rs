//! The kind of submission during which a crash happens.

/// The kind of submission during which a crash happens, while the submission is in flight on the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// None: the crash happens at any time.
    Anything,
    /// A part of a checkpoint.
    Checkpoint,
    /// Records.
    Records,
    /// The end of an origin's write of a block, while the record that the cache dropped its older copy is not durable.
    Forgotten,
    /// The marks of a cache device that is put out of service, or the host's record.
    Marks,
    /// A durable mark, or the host's record, that declares some of the volumes complete.
    Complete,
}
