//! A change of the places of a served volume.

use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;
use crate::serve::frontend::check_unused;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::membership::{Members, PlaceFate, PlaceOrder};

pub(crate) struct ReadyPlaces {
    name: String,
    added: OpenPlaces,
    removed: Vec<NbdAddress>,
    guests: PlaceFate,
    device: PlaceFate,
    exposure: Exposure,
}

impl ReadyPlaces {
    /// Opens the addresses and creates the block device in `wanted` that are not in `before`, and refuses to remove
    /// a block device in use. `opened` are further addresses that are open by the time of [`ReadyPlaces::apply`], and
    /// may be shared.
    pub(crate) fn prepare(
        server: &ServerHandle,
        before: &VolumeSpec,
        wanted: &VolumeSpec,
        opened: &[NbdAddress],
    ) -> Result<ReadyPlaces, ServeError> {
        let members: Members = server.in_turn(|verbs, _| verbs.members())??;
        let exposure = server.context().exposure;
        let (old, new) = (before.served_by(), wanted.served_by());
        let mut added =
            OpenPlaces::open(wanted, Some(before), &[&members.addresses, opened].concat(), exposure)?;
        let is_gone = |address: &&NbdAddress| !new.nbd.addresses().contains(address);
        let removed = old.nbd.addresses().iter().filter(is_gone).cloned().collect();
        let has_moved = old.vhost_user.path.is_some() && old.vhost_user.path != new.vhost_user.path;
        let guests = if has_moved { PlaceFate::Goes } else { PlaceFate::Stays };
        let goes = old.has_host_device() && !new.has_host_device();
        let device = if goes { PlaceFate::Goes } else { PlaceFate::Stays };
        if let Some(member) = members.member(&wanted.name) {
            if let Some(path) = member.block_device.as_ref().filter(|_| goes) {
                let refuse = |what| ServeError::Volume { name: wanted.name.clone(), what };
                check_unused(path).map_err(refuse)?;
            }
            added.open_device(wanted, Some(before), &member.volume, members.io_engine)?;
        }
        Ok(ReadyPlaces { name: wanted.name.clone(), added, removed, guests, device, exposure })
    }

    /// Applies the change.
    ///
    /// # Errors
    /// If that fails; the volume is then served where it was.
    pub(crate) fn apply(self, server: &ServerHandle) -> Result<(), ServeError> {
        let ReadyPlaces { name, added, removed, guests, device, exposure } = self;
        let order = PlaceOrder { name, added, removed, guests, device, exposure };
        server.in_turn(move |verbs, _| verbs.change_places(order))?
    }
}
