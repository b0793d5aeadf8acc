//! The volumes that a cache device served before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::devices::offline::metadata::superblock;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::state::{OriginRecord, uuid_text};
use crate::driver::rights::access;
use crate::plan::origin_source::OriginSource;
use crate::serve::config::StatePlace;

/// Volumes that were served with a cache device.
pub struct EarlierVolumes {
    names: BTreeSet<String>,
    uuid: Option<String>,
    paths: Vec<PathBuf>,
    notes: Vec<OriginRecord>,
}

/// Whether a device may be touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    Allowed,
    /// The device does not answer, and an access may block for ever.
    Forbidden,
}

impl EarlierVolumes {
    pub fn of(path: &Path, touch: Touch, state: &StatePlace) -> EarlierVolumes {
        let found = match touch {
            Touch::Allowed => OfflineDevice::open(path).and_then(|source| superblock(&source)).ok(),
            Touch::Forbidden => None,
        };
        let whole = std::path::absolute(path).ok();
        let real = if touch == Touch::Allowed { access::canonical(path).ok() } else { None };
        let notes = state.store().and_then(|store| store.origins().ok());
        EarlierVolumes {
            names: found.iter().flat_map(|found| &found.volumes).map(|record| record.name.clone()).collect(),
            uuid: found.map(|found| uuid_text(found.uuid)),
            paths: whole.into_iter().chain(real).collect(),
            notes: notes.map(|notes| notes.records).unwrap_or_default(),
        }
    }

    /// Whether the superblock or a record shows that the device had a volume with this name. For a device that
    /// cannot be read, a record with this `origin` counts too.
    pub fn knows(&self, name: &str, origin: &OriginSource, touch: Touch) -> bool {
        let identity = match touch {
            Touch::Allowed => origin.identity().ok(),
            Touch::Forbidden => None,
        };
        let is_meant = |note: &OriginRecord| {
            let is_here =
                self.uuid.as_ref() == Some(&note.cache_uuid) || self.paths.contains(&note.cache_path);
            // A device that cannot be read may have been recorded under another of its names.
            let is_elsewhere = self.uuid.is_none() && identity.as_ref() == Some(&note.identity);
            note.volume == name && !note.cache_uuid.is_empty() && (is_here || is_elsewhere)
        };
        self.names.contains(name) || self.notes.iter().any(is_meant)
    }
}
