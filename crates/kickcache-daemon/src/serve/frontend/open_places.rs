//! The addresses of a volume, with open sockets and a block device that is ready.

use crate::driver::io_engine::IoEngine;
use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;
use crate::serve::frontend::listener::{self, Listener, Place};
use crate::serve::frontend::nbd::membership::OpenAddress;
use crate::serve::frontend::ublk::control_threads::ControlThreads;
use crate::serve::frontend::ublk::open_ublk::OpenUblk;
use crate::serve::frontend::ublk::place::{NOBODY, UblkPlace};
use crate::serve::frontend::vhost_user::port::OpenGuest;
use crate::serve::known_volume::KnownVolume;

#[derive(Default)]
pub(crate) struct OpenPlaces {
    pub(super) nbd: Vec<OpenAddress>,
    pub(super) guest: Option<OpenGuest>,
    pub(crate) ublk: Option<OpenUblk>,
}

impl OpenPlaces {
    /// Opens the sockets of `spec` that `before` does not have; `shared` are addresses that the daemon already listens
    /// on, and that volumes may share.
    ///
    /// # Errors
    /// [`ServeError::Address`].
    pub(crate) fn open(
        spec: &VolumeSpec,
        before: Option<&VolumeSpec>,
        shared: &[NbdAddress],
        exposure: Exposure,
    ) -> Result<OpenPlaces, ServeError> {
        let (wanted, known) = (spec.served_by(), before.map(VolumeSpec::served_by).unwrap_or_default());
        let mut places = OpenPlaces::default();
        let is_new = |address: &&NbdAddress| !known.nbd.addresses().contains(address);
        for address in wanted.nbd.addresses().iter().filter(is_new) {
            listener::check(address, exposure)?;
            let open = || Listener::open(Place::Address(address.clone()), exposure);
            let is_shared = !address.is_any_port() && shared.contains(address);
            let listener = if is_shared { None } else { Some(open()?) };
            places.nbd.push(OpenAddress { address: address.clone(), listener });
        }
        if let Some(path) = wanted.vhost_user.path.filter(|path| known.vhost_user.path.as_ref() != Some(path))
        {
            listener::check_path(&path)?;
            let listener = Listener::open_for_guest(Place::Address(NbdAddress::Unix(path)))?;
            let block_size = spec.frontends.guest_block_bytes();
            places.guest = Some(OpenGuest { listener, block_size, serial: spec.serial() });
        }
        Ok(places)
    }

    /// Makes or takes over the block device that `spec` has, unless the volume is served by one already.
    ///
    /// # Errors
    /// [`ServeError::Volume`].
    pub(crate) fn open_device(
        &mut self,
        spec: &VolumeSpec,
        before: Option<&VolumeSpec>,
        volume: &KnownVolume,
        io_engine: IoEngine,
    ) -> Result<(), ServeError> {
        let was_one = before.is_some_and(|before| before.frontends.has_host_device());
        if let Some(place) = UblkPlace::of(spec, NOBODY).filter(|_| !was_one) {
            self.ublk = Some(OpenUblk::open(&ControlThreads::default(), &place, volume, io_engine)?);
        }
        Ok(())
    }

    /// Opens addresses that were to be shared and have been closed since; `is_there` reports whether one has
    /// a listener.
    ///
    /// # Errors
    /// [`ServeError::Address`].
    pub(super) fn open_rest(
        &mut self,
        is_there: impl Fn(&NbdAddress) -> bool,
        exposure: Exposure,
    ) -> Result<(), ServeError> {
        let is_lost = |open: &&mut OpenAddress| open.listener.is_none() && !is_there(&open.address);
        for open in self.nbd.iter_mut().filter(is_lost) {
            open.listener = Some(Listener::open(Place::Address(open.address.clone()), exposure)?);
        }
        Ok(())
    }
}
