//! vhost-user: a volume may have a socket for one virtual machine, which shares its rings with the daemon.
//!
//! Rings and messages are in the crate `kickcache_vhost_user`.

pub(crate) mod key;
pub(super) mod membership;
pub(crate) mod port;
pub(crate) mod request;
mod rings;
mod session;

use crate::plan::frontends::serial_number::SerialNumber;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;
use crate::serve::frontend::listener::{Listener, Place};
use crate::serve::frontend::vhost_user::port::{OpenGuest, Port};
use crate::serve::served_volumes::ServedVolumes;

#[derive(Default)]
pub(crate) struct VhostUser {
    pub(crate) ports: Vec<Port>,
    /// No more requests of virtual machines are accepted.
    closed: bool,
    /// Requests that were passed on and have no reply, also requests that wait for a cap.
    in_flight: usize,
}

pub(crate) struct GuestPlace {
    place: Place,
    volume: usize,
    /// Bytes of a logical block that is reported to the guest: 512 or 4096.
    block_size: u32,
    serial: SerialNumber,
}

impl GuestPlace {
    pub(crate) fn of(spec: &VolumeSpec, volume: usize, place: Place) -> GuestPlace {
        let block_size = spec.frontends.guest_block_bytes();
        GuestPlace { place, volume, block_size, serial: spec.serial() }
    }
}

impl VhostUser {
    pub(crate) fn new(ports: Vec<Port>) -> VhostUser {
        VhostUser { ports, ..VhostUser::default() }
    }

    pub(crate) fn open(places: Vec<GuestPlace>, volumes: &ServedVolumes) -> Result<VhostUser, ServeError> {
        let opened = places.into_iter().map(|place| {
            let listener = Listener::open_for_guest(place.place)?;
            let guest = OpenGuest { listener, block_size: place.block_size, serial: place.serial };
            Ok(guest.port(place.volume, &volumes[place.volume].info))
        });
        Ok(VhostUser::new(opened.collect::<Result<_, ServeError>>()?))
    }

    pub(super) fn address_of(&self, volume: usize) -> Option<&str> {
        let port = self.ports.iter().find(|port| port.volume == volume)?;
        port.listener.as_ref().map(|listener| listener.address.as_str())
    }

    /// Virtual machines that are connected to a volume.
    pub(super) fn session_count(&self, volume: usize) -> u64 {
        let connected = self.ports.iter().filter(|port| port.volume == volume && port.socket.is_some());
        connected.count() as u64
    }

    /// Whether requests are in flight, or wait for memory or for other requests.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight > 0 || !self.is_idle()
    }

    /// Whether no request waits for memory or for other requests of its guest.
    pub(crate) fn is_idle(&self) -> bool {
        self.ports.iter().all(|port| port.held.is_none())
    }

    /// Takes over a new size of a volume.
    pub(super) fn resize(&mut self, volume: usize, size: u64) {
        self.ports.iter_mut().filter(|port| port.volume == volume).for_each(|port| port.device.resize(size));
    }

    /// Whether a ring may have a request to take.
    pub(super) fn has_work(&self) -> bool {
        !self.closed && self.ports.iter().any(Port::has_more)
    }

    /// Requests kicks from now on; `true` if the loop must not sleep yet.
    pub(super) fn arm(&mut self) -> bool {
        // After a port with requests, no further port is armed, as the loop does not sleep then.
        !self.closed && self.ports.iter_mut().any(Port::arm)
    }
}
