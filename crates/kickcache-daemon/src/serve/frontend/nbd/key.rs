//! The watched descriptors of NBD.

/// Identifies a connection, and differs from later connections in the same slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    pub(crate) index: u16,
    pub(crate) generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NbdKey {
    Listener(u16),
    Client(ConnectionId),
}

/// The bit that distinguishes connections from listeners.
const CLIENT: u64 = 1 << 48;

impl NbdKey {
    /// At most 56 bits.
    pub(crate) fn bits(self) -> u64 {
        match self {
            NbdKey::Listener(index) => u64::from(index),
            NbdKey::Client(id) => CLIENT | u64::from(id.generation) << 16 | u64::from(id.index),
        }
    }

    pub(crate) fn from_bits(bits: u64) -> NbdKey {
        let index = u16::try_from(bits & 0xffff).expect("masked");
        if bits & CLIENT == 0 {
            return NbdKey::Listener(index);
        }
        let generation = u32::try_from(bits >> 16 & 0xffff_ffff).expect("masked");
        NbdKey::Client(ConnectionId { index, generation })
    }
}
