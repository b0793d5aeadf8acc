//! The volumes of a server; the index of a volume does not change while it is served.

use std::ops::{Index, IndexMut};

use kickcache_engine::units::VolumeId;
use kickcache_tls::names::AllowedClient;

use crate::devices::state::OriginLock;
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::ZeroSpeed;
use crate::serve::volume_info::VolumeInfo;

pub(crate) struct Volume {
    pub(crate) info: VolumeInfo,
    pub(crate) identity: VolumeIdentity,
    pub(crate) zeroes: ZeroSpeed,
    /// The names of NBD clients that may use the volume; empty if all may.
    pub(crate) allowed: Vec<AllowedClient>,
    /// The locks of the origin, held while the volume is served.
    pub(crate) _locks: Vec<OriginLock>,
}

pub(crate) struct ServedVolumes(Vec<Option<Volume>>);

impl ServedVolumes {
    pub(crate) fn new(volumes: Vec<Volume>) -> ServedVolumes {
        ServedVolumes(volumes.into_iter().map(Some).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.0.iter().flatten()
    }

    pub(crate) fn find_mut(&mut self, id: VolumeId) -> Option<&mut Volume> {
        self.0.iter_mut().flatten().find(|volume| volume.info.id == id)
    }

    /// The indices of the volumes, in the same order as the volumes.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter_map(|(index, volume)| volume.as_ref().map(|_| index))
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.indices().find(|index| self[*index].info.name == name)
    }

    /// The name at an index; `?` if the volume was removed.
    pub(crate) fn name(&self, index: usize) -> &str {
        let found = self.0.get(index).and_then(Option::as_ref);
        found.map_or("?", |volume| &volume.info.name)
    }

    /// Adds a volume at a free index; returns this index.
    pub(crate) fn insert(&mut self, volume: Volume) -> usize {
        match self.0.iter().position(Option::is_none) {
            Some(free) => {
                self.0[free] = Some(volume);
                free
            }
            None => {
                self.0.push(Some(volume));
                self.0.len() - 1
            }
        }
    }

    /// Removes a volume; its index is free.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Volume> {
        self.0.get_mut(index)?.take()
    }
}

impl Index<usize> for ServedVolumes {
    type Output = Volume;

    fn index(&self, index: usize) -> &Volume {
        self.0[index].as_ref().expect("the volume is served")
    }
}

impl IndexMut<usize> for ServedVolumes {
    fn index_mut(&mut self, index: usize) -> &mut Volume {
        self.0[index].as_mut().expect("the volume is served")
    }
}
