//! State that a run records to judge errors.

use std::collections::BTreeMap;

use kickcache_engine::request::RequestId;
use kickcache_engine::units::{BlockIndex, VolumeId};

use crate::workload::Ask;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunRecords {
    /// A cache device of this run has been out of service.
    pub(crate) was_out: bool,
    /// Successful requests that change the volume, for each volume.
    changes: Vec<u64>,
    /// Discards in flight that began after `was_out`, each on a sound origin and without another change of its volume
    /// in flight.
    pub(crate) discards: BTreeMap<RequestId, WatchedDiscard>,
    /// Failed requests that change a volume, before `was_out`.
    pub(crate) failed_changes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchedDiscard {
    /// The dirty blocks that the discard covers.
    pub(crate) dirty: Vec<BlockIndex>,
    /// Successful changes of the volume before the discard.
    pub(crate) changes: u64,
}

impl RunRecords {
    pub(crate) fn new(volumes: usize) -> RunRecords {
        RunRecords { was_out: false, changes: vec![0; volumes], discards: BTreeMap::new(), failed_changes: 0 }
    }

    pub(crate) fn changes(&self, volume: VolumeId) -> u64 {
        self.changes[usize::from(volume.get())]
    }

    pub(crate) fn on_success(&mut self, id: RequestId, ask: &Ask) {
        self.discards.remove(&id);
        self.changes[usize::from(ask.volume.get())] += u64::from(!ask.changes_nothing());
    }
}
