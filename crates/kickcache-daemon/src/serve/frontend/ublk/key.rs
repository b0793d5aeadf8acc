//! The key of commands about a tag.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UblkKey {
    /// The device's index in the front end.
    pub(crate) device: u16,
    pub(crate) queue: u16,
    pub(crate) tag: u16,
}

impl UblkKey {
    /// At most 56 bits.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.device) << 32 | u64::from(self.queue) << 16 | u64::from(self.tag)
    }

    pub(crate) fn from_bits(bits: u64) -> UblkKey {
        let part = |shift: u32| u16::try_from(bits >> shift & 0xffff).expect("masked");
        UblkKey { device: part(32), queue: part(16), tag: part(0) }
    }
}
