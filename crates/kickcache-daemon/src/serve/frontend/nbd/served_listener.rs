//! An address that NBD is served on, and what clients find there.

use std::sync::Arc;

use kickcache_nbd::ExportInfo;

use crate::plan::Exposure;
use crate::serve::control::VolumeInfo;
use crate::serve::core::Volume;
use crate::serve::error::ServeError;
use crate::serve::frontend::listener::Place;
use crate::serve::frontend::listener::{Listener, VolumePlace};

/// A listener and what it offers.
pub(crate) struct ServedListener {
    pub(crate) listener: Listener,
    pub(crate) exports: Arc<[ExportInfo]>,
    /// Index into the volumes for each export.
    pub(crate) volumes: Arc<[usize]>,
    pub(crate) watched: bool,
}

impl ServedListener {
    fn open(
        address: Place,
        members: &[usize],
        volumes: &[Volume],
        exposure: Exposure,
    ) -> Result<ServedListener, ServeError> {
        let listener = Listener::open(address, exposure)?;
        let exports = exports(members, volumes);
        let names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
        tracing::info!(event = "listening", "NBD is served on {} for {}", listener.address, names.join(", "));
        Ok(ServedListener { listener, exports, volumes: members.into(), watched: false })
    }

    /// What clients are told from now on, of volumes that changed.
    pub(crate) fn offer(&mut self, volumes: &[Volume]) {
        self.exports = exports(&self.volumes, volumes);
    }
}

/// One listener for each address; an address that several volumes name serves them all.
pub(crate) fn open_listeners(
    addresses: Vec<VolumePlace>,
    volumes: &[Volume],
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
        .map(|(address, members)| ServedListener::open(address, &members, volumes, exposure));
    opened.collect()
}

fn exports(members: &[usize], volumes: &[Volume]) -> Arc<[ExportInfo]> {
    members.iter().map(|&index| export(&volumes[index].info)).collect()
}

/// What clients are told of a volume.
fn export(volume: &VolumeInfo) -> ExportInfo {
    ExportInfo {
        name: volume.name.clone(),
        description: format!("{} behind a kickcache", volume.origin),
        size: volume.size,
        read_only: volume.read_only,
        rotational: false,
    }
}
