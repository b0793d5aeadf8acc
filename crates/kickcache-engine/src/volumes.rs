//! The volumes of the cache device, and the served ones among them.

use alloc::boxed::Box;

use crate::config::VOLUME_COUNT_MAX;
use crate::units::{VolumeId, VolumeSet};
use crate::volume::Volume;

#[derive(Debug)]
pub(crate) struct Volumes {
    table: [Option<Box<Volume>>; VOLUME_COUNT_MAX],
    known: VolumeSet,
    served: VolumeSet,
}

impl Volumes {
    pub(crate) fn new(known: VolumeSet) -> Volumes {
        Volumes { table: [const { None }; VOLUME_COUNT_MAX], known, served: VolumeSet::default() }
    }

    pub(crate) fn add(&mut self, volume: Volume) {
        self.known.insert(volume.id);
        self.served.insert(volume.id);
        let at = usize::from(volume.id.get());
        self.table[at] = Some(Box::new(volume));
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        self.known.remove(volume);
        self.served.remove(volume);
        self.table[usize::from(volume.get())] = None;
    }

    pub(crate) fn known(&self) -> VolumeSet {
        self.known
    }

    /// The served volumes, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = VolumeId> + use<> {
        self.served.iter()
    }

    /// # Panics
    /// If it is not served.
    pub(crate) fn get(&self, volume: VolumeId) -> &Volume {
        self.find(volume).expect("the volume is served")
    }

    pub(crate) fn get_mut(&mut self, volume: VolumeId) -> &mut Volume {
        self.table[usize::from(volume.get())].as_deref_mut().expect("the volume is served")
    }

    pub(crate) fn find(&self, volume: VolumeId) -> Option<&Volume> {
        self.table.get(usize::from(volume.get()))?.as_deref()
    }

    pub(crate) fn find_mut(&mut self, volume: VolumeId) -> Option<&mut Volume> {
        self.table.get_mut(usize::from(volume.get()))?.as_deref_mut()
    }
}
