//! What a watch was for, packed into its key.

use crate::serve::guests::GuestKey;
use crate::serve::requests::ConnectionId;

/// What became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    Control,
    Listener(u16),
    Client(ConnectionId),
    Guest(GuestKey),
}

impl Watched {
    pub(super) fn key(self) -> u64 {
        match self {
            Watched::Control => 0,
            Watched::Listener(index) => 2 << 56 | u64::from(index),
            Watched::Client(id) => 3 << 56 | u64::from(id.generation) << 16 | u64::from(id.index),
            Watched::Guest(key) => 4 << 56 | key.bits(),
        }
    }

    pub(super) fn from_key(key: u64) -> Watched {
        let index = u16::try_from(key & 0xffff).expect("masked");
        match key >> 56 {
            0 => Watched::Control,
            2 => Watched::Listener(index),
            4 => Watched::Guest(GuestKey::from_bits(key)),
            _ => {
                let generation = u32::try_from(key >> 16 & 0xffff_ffff).expect("masked");
                Watched::Client(ConnectionId { index, generation })
            }
        }
    }
}
