//! The front ends: how clients reach volumes.
//!
//! A front end owns its listeners, its sessions, the memory that its clients share with it, and the state of
//! their requests.
//!
//! A front end never names another one, nor the loop.
//!
//! To add a front end: a folder next to [`nbd`], [`vhost_user`] and [`ublk`], and its calls here; in
//! [`kinds`] its variant of [`Pending`] and of [`WatchKey`]; in [`crate::plan::frontends`] its settings and
//! its part of [`ServedAt`].

pub(crate) mod kinds;
pub(crate) mod listener;
pub(crate) mod loop_step;
pub(crate) mod nbd;
pub(crate) mod open_places;
pub(crate) mod ublk;
pub(crate) mod vhost_user;

use std::path::Path;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::request::Reply;
use kickcache_engine::time::Instant;

use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::budget::LateGrant;
use crate::driver::{Doorbells, Interest};
use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::frontends::{ServedAt, Sessions};
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::InheritedSockets;
use crate::serve::core::Core;
use crate::serve::error::ServeError;
use crate::serve::frontend::kinds::{Pending, WatchKey};
use crate::serve::frontend::listener::{Place, VolumePlace};
use crate::serve::frontend::loop_step::LoopStep;
use crate::serve::frontend::nbd::Nbd;
use crate::serve::frontend::nbd::key::NbdKey;
use crate::serve::frontend::nbd::settings::NbdSettings;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::frontend::ublk::control_threads::ControlThreads;
use crate::serve::frontend::ublk::place::UblkPlace;
use crate::serve::frontend::ublk::unsafe_devices::Starting;
use crate::serve::frontend::ublk::{Ublk, own_device, removal, unsafe_devices};
use crate::serve::frontend::vhost_user::{GuestPlace, VhostUser};
use crate::serve::requests::InFlight;

#[derive(Default)]
pub(crate) struct Frontends {
    pub(crate) nbd: Nbd,
    pub(crate) vhost_user: VhostUser,
    pub(crate) ublk: Ublk,
}

/// Refuses a cache device or origin on a block device of its own volumes.
pub(crate) fn check(cache: &CacheSpec) -> Result<(), ServeError> {
    own_device::check(cache)
}

/// Refuses places of a volume with errors that can be found before a socket is opened.
pub(crate) fn check_volume(volume: &VolumeSpec, exposure: Exposure) -> Result<(), ServeError> {
    let served_by = volume.served_by();
    served_by.nbd.addresses().iter().try_for_each(|address| listener::check(address, exposure))?;
    served_by.vhost_user.path.iter().try_for_each(|path| listener::check_path(path))
}

/// Refuses a path on the block device of a volume in the list.
///
/// # Errors
/// A sentence.
pub(crate) fn check_path(path: &Path, own: &[VolumeIdentity]) -> Result<(), String> {
    own_device::check_path(path, own)
}

/// Refuses a block device with a user.
///
/// # Errors
/// A sentence.
pub(crate) fn check_unused(device: &Path) -> Result<(), String> {
    removal::check_unused(device)
}

/// Waits for a short time until the block device of a removed volume has been deleted.
pub(crate) fn wait_until_gone(device: &Path) {
    removal::wait_until_gone(&ControlThreads::default(), device);
}

/// Refuses a volume with a block device of an earlier daemon, as [`unsafe_devices::check`] does.
pub(crate) fn check_left_behind(
    spec: &VolumeSpec,
    volume: &VolumeIdentity,
    earlier: Option<&VolumeIdentity>,
) -> Result<(), ServeError> {
    unsafe_devices::check(&Starting { volume, earlier, device: spec.served_by().ublk.id })
}

pub(crate) struct Addresses {
    nbd: Vec<VolumePlace>,
    vhost_user: Vec<GuestPlace>,
    ublk: Vec<UblkPlace>,
}

impl Addresses {
    /// The addresses of the volumes; for the first one also the sockets passed at the start.
    pub(crate) fn of(volumes: &[VolumeSpec], inherited: InheritedSockets) -> Addresses {
        let mut addresses = Addresses { nbd: Vec::new(), vhost_user: Vec::new(), ublk: Vec::new() };
        for (index, volume) in volumes.iter().enumerate() {
            let served_by = volume.served_by();
            let nbd = served_by.nbd.addresses().iter().cloned().map(Place::Address);
            addresses.nbd.extend(nbd.map(|place| VolumePlace { place, volume: index }));
            addresses.ublk.extend(UblkPlace::of(volume, index));
            let path = served_by.vhost_user.path.map(|path| Place::Address(NbdAddress::Unix(path)));
            addresses.vhost_user.extend(path.map(|place| GuestPlace::of(volume, index, place)));
        }
        let nbd = inherited.nbd.into_iter().map(Place::Inherited);
        addresses.nbd.extend(nbd.map(|place| VolumePlace { place, volume: 0 }));
        if let (Some(volume), Some(socket)) = (volumes.first(), inherited.vhost_user) {
            addresses.vhost_user.push(GuestPlace::of(volume, 0, Place::Inherited(socket)));
        }
        addresses
    }
}

impl Frontends {
    /// Listens on the addresses of all front ends, and makes or takes over their block devices.
    pub(crate) fn open<E>(
        addresses: Addresses,
        core: &mut Core<E>,
        nbd: NbdSettings,
    ) -> Result<Frontends, ServeError> {
        let volumes = &core.volumes;
        Ok(Frontends {
            nbd: Nbd::open(addresses.nbd, volumes, nbd)?,
            vhost_user: VhostUser::open(addresses.vhost_user, volumes)?,
            ublk: Ublk::open(&addresses.ublk, core)?,
        })
    }

    pub(crate) fn served_at(&self, volume: usize, name: &str) -> ServedAt {
        ServedAt {
            nbd: self.nbd.uris_of(volume, name),
            vhost_user: self.vhost_user.address_of(volume).map(Into::into),
            ublk: self.ublk.path_of(volume),
            ublk_removed: self.ublk.removed_path_of(volume),
        }
    }

    /// The numbers of clients of the volume with an index; a block device counts as one client.
    pub(crate) fn sessions(&self, volume: usize) -> Sessions {
        Sessions {
            nbd: self.nbd.session_count(volume),
            vhost_user: self.vhost_user.session_count(volume),
            ublk: u64::from(self.ublk.path_of(volume).is_some()),
        }
    }

    pub(crate) fn tls_failure(&self) -> Option<String> {
        self.nbd.tls_failure()
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.nbd.connection_count()
    }

    /// Watches listeners that are not watched yet; the first call starts the block devices, too.
    pub(crate) fn watch<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        self.nbd.watch(core);
        self.vhost_user.watch(core);
        self.ublk.watch(core);
    }

    pub(crate) fn on_ready<E: CacheEngine>(&mut self, core: &mut Core<E>, key: WatchKey, interest: Interest) {
        match key {
            WatchKey::Nbd(key) => self.nbd.on_ready(core, key, interest),
            WatchKey::VhostUser(key) => self.vhost_user.on_ready(core, key, interest),
            WatchKey::Ublk(_) => {}
        }
    }

    pub(crate) fn on_command<E: CacheEngine>(&mut self, core: &mut Core<E>, key: WatchKey, result: i32) {
        match key {
            WatchKey::Ublk(key) => self.ublk.on_command(core, key, result),
            WatchKey::Nbd(_) | WatchKey::VhostUser(_) => {}
        }
    }

    /// Continues requests with granted memory, and takes requests from shared memory.
    pub(crate) fn take_requests<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        while let Some(LateGrant { key, grant }) = core.driver.buffers().budget.poll_grant() {
            match WatchKey::from_bits(key) {
                Some(WatchKey::Nbd(NbdKey::Client(id))) => self.nbd.on_memory(core, id, grant),
                Some(WatchKey::VhostUser(key)) => self.vhost_user.on_memory(core, key, grant),
                Some(WatchKey::Ublk(key)) => self.ublk.on_memory(core, key, grant),
                Some(WatchKey::Nbd(NbdKey::Listener(_))) | None => unreachable!("only clients claim memory"),
            }
        }
        self.vhost_user.take_requests(core);
        self.ublk.take_requests(core);
    }

    pub(crate) fn on_reply<E: CacheEngine>(&mut self, core: &mut Core<E>, entry: InFlight, reply: &Reply) {
        match entry.pending {
            Pending::Nbd(request) => self.nbd.on_reply(core, entry.volume, request, reply),
            Pending::VhostUser(request) => self.vhost_user.on_reply(core, request, reply),
            Pending::Ublk(request) => self.ublk.on_reply(core, entry.operation, request, reply),
        }
    }

    pub(crate) fn take_extents<E>(&mut self, core: &mut Core<E>) {
        self.nbd.take_extents(core);
    }

    pub(crate) fn send<E: CacheEngine>(&mut self, core: &mut Core<E>) -> Result<LoopStep, ServeError> {
        let after = self.nbd.send(core);
        self.vhost_user.send(core)?;
        Ok(if core.driver.buffers().budget.has_news() { LoopStep::GoOn } else { after })
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.nbd.poll_timeout()
    }

    /// Closes the connections of NBD clients that are late, gone or too slow.
    pub(crate) fn handle_timeout<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        self.nbd.end_late_handshakes(core);
        self.nbd.end_gone(core);
        self.nbd.end_slow(core);
    }

    /// Opens the remaining resources for addresses.
    ///
    /// # Errors
    /// [`ServeError::Address`].
    pub(crate) fn ready(&self, mut places: OpenPlaces, exposure: Exposure) -> Result<OpenPlaces, ServeError> {
        places.open_rest(|address| self.nbd.listens_on(address), exposure)?;
        Ok(places)
    }

    /// Serves the volume of an index at more places, which are ready.
    pub(crate) fn join<E>(&mut self, core: &mut Core<E>, volume: usize, places: OpenPlaces) {
        let OpenPlaces { nbd, guest, ublk } = places;
        nbd.into_iter().for_each(|open| self.nbd.join(core, volume, open));
        guest.into_iter().for_each(|guest| self.vhost_user.join(core, volume, guest));
        ublk.into_iter().for_each(|open| self.ublk.join(core, volume, open));
    }

    pub(crate) fn part<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        self.nbd.part(core, volume, None);
        self.vhost_user.part(core, volume);
        self.ublk.part(core, volume);
    }

    /// Begins to remove a block device that no process has open.
    pub(crate) fn part_from_host<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        self.ublk.part(core, volume);
    }

    /// Stops serving a volume on an NBD address; connections go on.
    pub(crate) fn part_from<E>(&mut self, core: &mut Core<E>, volume: usize, address: &NbdAddress) {
        self.nbd.part(core, volume, Some(address));
    }

    /// Stops serving a volume to virtual machines.
    pub(crate) fn part_from_guests<E>(&mut self, core: &mut Core<E>, volume: usize) {
        self.vhost_user.part(core, volume);
    }

    /// Accepts no more requests for a volume.
    pub(crate) fn hide<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) {
        self.nbd.hide(core, volume);
        self.vhost_user.hide(core, volume);
        self.ublk.hide(volume);
    }

    /// Serves a hidden volume again.
    pub(crate) fn show<E>(&mut self, core: &mut Core<E>, volume: usize) {
        self.nbd.show(core);
        self.vhost_user.show(core, volume);
        self.ublk.show(volume);
    }

    /// Ends the NBD clients of a volume that have all of their replies; returns whether no NBD client, no
    /// virtual machine and no request of a virtual machine or of the block device is left.
    pub(crate) fn end_quiet<E: CacheEngine>(&mut self, core: &mut Core<E>, volume: usize) -> bool {
        self.nbd.end_quiet(core, volume);
        self.nbd.session_count(volume) == 0
            && self.vhost_user.has_ended(volume)
            && self.ublk.has_ended(volume)
    }

    /// NBD addresses that volumes may share.
    pub(crate) fn addresses(&self) -> Vec<NbdAddress> {
        self.nbd.addresses()
    }

    pub(crate) fn resize<E>(&mut self, core: &Core<E>, volume: usize) {
        self.nbd.resize(core);
        let size = core.volumes[volume].info.size;
        self.vhost_user.resize(volume, size);
        self.ublk.resize(volume, size);
    }

    /// Accepts no more clients, and no more requests of connected ones.
    pub(crate) fn stop_listening<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        self.nbd.stop_listening(core);
        self.vhost_user.stop_listening(core);
        self.ublk.stop_listening();
    }

    /// Whether completions are to be taken in turns.
    pub(crate) fn wants_turns(&self) -> bool {
        self.vhost_user.is_busy()
    }

    /// Whether no request of a guest or a block device waits to go to the engine.
    pub(crate) fn is_idle(&self) -> bool {
        self.vhost_user.is_idle() && self.ublk.is_idle()
    }

    /// Whether no NBD client has a request in flight or a reply that the socket has not accepted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.nbd.is_quiet()
    }

    pub(crate) fn close<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        self.nbd.close_all(core);
    }
}

impl Doorbells for Frontends {
    fn has_work(&self) -> bool {
        self.vhost_user.has_work()
    }

    fn arm(&mut self) -> bool {
        self.vhost_user.arm()
    }

    fn takes_time(&mut self) -> bool {
        self.nbd.take_long_write()
    }
}
