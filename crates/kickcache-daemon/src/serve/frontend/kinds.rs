//! The front ends by name.

use crate::serve::frontend::nbd::key::NbdKey;
use crate::serve::frontend::nbd::request::NbdRequest;
use crate::serve::frontend::ublk::key::UblkKey;
use crate::serve::frontend::ublk::request::UblkRequest;
use crate::serve::frontend::vhost_user::key::PortKey;
use crate::serve::frontend::vhost_user::request::VhostUserRequest;

/// The data that a front end needs to answer a request, with the front end.
#[derive(Debug)]
pub(crate) enum Pending {
    Nbd(NbdRequest),
    VhostUser(VhostUserRequest),
    Ublk(UblkRequest),
}

/// A descriptor that is watched, or a tag of a device command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WatchKey {
    Nbd(NbdKey),
    VhostUser(PortKey),
    Ublk(UblkKey),
}

/// Lower bits of a key that the front end defines.
const OWN_BITS: u32 = 56;
/// The number of the front end in the upper bits of a key; 0 is the loop.
const NBD: u64 = 1;
const VHOST_USER: u64 = 2;
const UBLK: u64 = 3;

impl WatchKey {
    pub(crate) fn bits(self) -> u64 {
        match self {
            WatchKey::Nbd(key) => NBD << OWN_BITS | key.bits(),
            WatchKey::VhostUser(key) => VHOST_USER << OWN_BITS | key.bits(),
            WatchKey::Ublk(key) => UBLK << OWN_BITS | key.bits(),
        }
    }

    /// `None` if the key belongs to no front end.
    pub(crate) fn from_bits(bits: u64) -> Option<WatchKey> {
        let own = bits & ((1 << OWN_BITS) - 1);
        match bits >> OWN_BITS {
            NBD => Some(WatchKey::Nbd(NbdKey::from_bits(own))),
            VHOST_USER => Some(WatchKey::VhostUser(PortKey::from_bits(own))),
            UBLK => Some(WatchKey::Ublk(UblkKey::from_bits(own))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::frontend::nbd::key::ConnectionId;
    use crate::serve::frontend::vhost_user::key::Part;

    #[test]
    fn keys_read_back_as_written() {
        let connection = ConnectionId { index: u16::MAX, generation: u32::MAX };
        let keys = [
            WatchKey::Nbd(NbdKey::Listener(0)),
            WatchKey::Nbd(NbdKey::Listener(u16::MAX)),
            WatchKey::Nbd(NbdKey::Client(connection)),
            WatchKey::Ublk(UblkKey { device: u16::MAX, queue: u16::MAX - 1, tag: u16::MAX - 2 }),
            WatchKey::VhostUser(PortKey { port: u16::MAX, part: Part::Kick(15), generation: u32::MAX }),
        ];
        for key in keys {
            assert_eq!(WatchKey::from_bits(key.bits()), Some(key));
        }
        assert_eq!(WatchKey::from_bits(0), None, "the loop's own");
    }
}
