//! An address with an NBD listener, and its exports.

use std::net::SocketAddr;
use std::sync::Arc;

use kickcache_nbd::ExportInfo;

use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::serve::error::ServeError;
use crate::serve::frontend::listener::Place;
use crate::serve::frontend::listener::{Listener, VolumePlace};
use crate::serve::served_volumes::ServedVolumes;

pub(crate) struct ServedListener {
    pub(crate) listener: Listener,
    /// The configured address; `None` for a socket that was passed at the start.
    pub(crate) address: Option<NbdAddress>,
    members: Vec<usize>,
    /// The default export: the first one, while it exists. After its removal no volume is the default: a
    /// client of the default export that reconnects would write into another volume.
    default: Option<usize>,
    hidden: Option<usize>,
    pub(crate) exports: Arc<[ExportInfo]>,
    /// Index into the volumes for each export.
    pub(crate) volumes: Arc<[usize]>,
    pub(crate) watched: bool,
}

impl ServedListener {
    fn open(
        place: Place,
        members: Vec<usize>,
        volumes: &ServedVolumes,
        exposure: Exposure,
    ) -> Result<ServedListener, ServeError> {
        let address = place.address().cloned();
        let listener = Listener::open(place, exposure)?;
        Ok(ServedListener::of(listener, address, members, volumes))
    }

    pub(super) fn of(
        listener: Listener,
        address: Option<NbdAddress>,
        members: Vec<usize>,
        volumes: &ServedVolumes,
    ) -> ServedListener {
        let names: Vec<&str> = members.iter().map(|&index| volumes.name(index)).collect();
        tracing::info!(event = "listening", "NBD is served on {} for {}", listener.address, names.join(", "));
        let (exports, offered) = (Arc::default(), Arc::default());
        let default = members.first().copied();
        let mut served = ServedListener {
            listener,
            address,
            members,
            default,
            hidden: None,
            exports,
            volumes: offered,
            watched: false,
        };
        served.offer(volumes);
        served
    }

    pub(super) fn serves(&self, volume: usize) -> bool {
        self.members.contains(&volume)
    }

    /// The URI of a volume for NBD clients; for an inherited socket, its name in the log.
    pub(super) fn uri(&self, volume: &str) -> String {
        let bound = self.listener.address.parse::<SocketAddr>().ok();
        match (&self.address, bound) {
            (None, _) => self.listener.address.clone(),
            (Some(NbdAddress::Tcp { .. }), Some(bound)) => {
                NbdAddress::Tcp { host: bound.ip().to_string(), port: bound.port() }.uri(volume)
            }
            (Some(address), _) => address.uri(volume),
        }
    }

    /// Updates the exports for new clients after a change of volumes.
    pub(crate) fn offer(&mut self, volumes: &ServedVolumes) {
        let offered = self.members.iter().filter(|index| self.hidden != Some(**index));
        self.volumes = offered.copied().collect();
        self.exports = self.volumes.iter().map(|&index| self.export(index, volumes)).collect();
    }

    fn export(&self, index: usize, volumes: &ServedVolumes) -> ExportInfo {
        let volume = &volumes[index].info;
        ExportInfo {
            name: volume.name.clone(),
            is_default: self.default == Some(index),
            description: format!("{} behind a kickcache", volume.origin),
            size: volume.size,
            read_only: volume.read_only,
            rotational: false,
        }
    }

    /// Offers all volumes of the address except the hidden one; with `None`, all volumes.
    pub(super) fn hide(&mut self, hidden: Option<usize>, volumes: &ServedVolumes) {
        self.hidden = hidden;
        self.offer(volumes);
    }

    pub(super) fn join(&mut self, volume: usize, volumes: &ServedVolumes) {
        self.members.push(volume);
        self.offer(volumes);
    }

    /// Stops serving a volume at this address; returns whether other volumes are served.
    pub(super) fn part(&mut self, volume: usize, volumes: &ServedVolumes) -> bool {
        self.members.retain(|member| *member != volume);
        self.default = self.default.filter(|default| *default != volume);
        self.hidden = self.hidden.filter(|hidden| *hidden != volume);
        self.offer(volumes);
        !self.members.is_empty()
    }
}

/// Opens one listener for each address; a shared address serves all volumes that name it.
pub(crate) fn open_listeners(
    addresses: Vec<VolumePlace>,
    volumes: &ServedVolumes,
    exposure: Exposure,
) -> Result<Vec<ServedListener>, ServeError> {
    let mut grouped: Vec<(Place, Vec<usize>)> = Vec::new();
    for VolumePlace { place: address, volume } in addresses {
        match grouped.iter_mut().find(|(known, _)| known.is_same(&address)) {
            Some((_, members)) => members.push(volume),
            None => grouped.push((address, vec![volume])),
        }
    }
    let opened = grouped
        .into_iter()
        .map(|(address, members)| ServedListener::open(address, members, volumes, exposure));
    opened.collect()
}
