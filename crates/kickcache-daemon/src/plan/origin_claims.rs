//! What the user says about an origin.

/// What the user says about an origin, beyond what the devices tell. Without a word it must be as the cache device knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginClaims {
    /// The same data under another path or on another device.
    pub moved: bool,
    /// Somebody wrote to it while it was detached: clean blocks are worthless. Refused while blocks are dirty.
    pub changed: bool,
    /// It was extended while nobody served it.
    pub grown: bool,
    /// It may be a cache device itself, which writes destroy.
    pub forced: bool,
    /// It cannot be flushed, and need not be: what it was given counts as durable.
    pub flushless: bool,
}
