//! The user's claims about an origin.

/// The user's claims about an origin, beyond the information from the devices. Without `moved`, `changed` or `grown`,
/// an origin must match the cache device's record, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginClaims {
    /// The origin has the recorded data, under another path or on another device.
    pub moved: bool,
    /// The origin was written to while no daemon served it with this cache device: clean blocks are stale.
    /// Refused while blocks are dirty.
    pub changed: bool,
    /// The origin was extended while no daemon served it.
    pub grown: bool,
    /// The origin is used even if it has the content of a cache device, which writes destroy.
    pub forced: bool,
    /// The origin is not flushed if it cannot be: its writes count as durable on completion.
    pub flushless: bool,
}
