//! The user's claims about an origin.

/// Claims of the user beyond the information from the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginClaims {
    /// The origin has the recorded data.
    pub moved: bool,
    /// The origin was written to while it was not served with this cache device: clean blocks are stale.
    pub changed: bool,
    /// The origin was extended while no daemon served it.
    pub grown: bool,
    /// The origin is used even if it has the content of a cache device.
    pub forced: bool,
    /// If the origin cannot be flushed, its writes count as durable on completion.
    pub flushless: bool,
}
