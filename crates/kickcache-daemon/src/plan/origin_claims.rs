//! The user's claims about an origin.

/// The user's claims about an origin, beyond the information from the devices. Without a claim it must match
/// the cache device's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginClaims {
    /// The same data under another path or on another device.
    pub moved: bool,
    /// It was written to while it was detached: clean blocks are stale. Refused while blocks are dirty.
    pub changed: bool,
    /// It was extended while no daemon served it.
    pub grown: bool,
    /// It may be a cache device itself, which writes destroy.
    pub forced: bool,
    /// It cannot be flushed, and need not be: its writes count as durable on completion.
    pub flushless: bool,
}
