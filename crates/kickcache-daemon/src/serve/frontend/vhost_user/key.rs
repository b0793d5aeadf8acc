//! The watched descriptors of a port.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortKey {
    pub(crate) port: u16,
    pub(crate) part: Part,
    pub(crate) generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Listener,
    Socket,
    Kick(u8),
}

impl PortKey {
    /// At most 56 bits.
    pub(crate) fn bits(self) -> u64 {
        let part = match self.part {
            Part::Listener => 0,
            Part::Socket => 1,
            Part::Kick(queue) => 2 + u64::from(queue),
        };
        u64::from(self.generation) << 24 | part << 16 | u64::from(self.port)
    }

    pub(crate) fn from_bits(bits: u64) -> PortKey {
        let part = match u8::try_from(bits >> 16 & 0xff).expect("masked") {
            0 => Part::Listener,
            1 => Part::Socket,
            kick => Part::Kick(kick - 2),
        };
        let port = u16::try_from(bits & 0xffff).expect("masked");
        PortKey { port, part, generation: u32::try_from(bits >> 24 & 0xffff_ffff).expect("masked") }
    }
}
