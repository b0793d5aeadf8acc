//! Records for the next start: of dirty blocks and of the origins' state.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::Mode;
use kickcache_engine::device::Device;

use super::EventLoop;
use crate::devices::record_queue::QueuedRecord;
use crate::devices::state::{Completeness, NewestBlocks};
use crate::extents::{Extent, extents};
use crate::serve::served_volumes::Volume;

/// Whether clients may write from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhileServed {
    Yes,
    No,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Records volumes as complete that have no dirty or unflushed blocks and, while served, cannot get dirty
    /// blocks.
    pub(crate) fn note_dirty(&mut self, while_served: WhileServed) {
        let Some(notes) = &self.notes else { return };
        for volume in self.core.engine.status().volumes {
            let served = self.core.volumes.iter().find(|served| served.info.id == volume.volume);
            let is_writable = served.is_some_and(|served| !served.info.read_only);
            let writes_back =
                is_writable && volume.mode == Mode::WriteBack && while_served == WhileServed::Yes;
            // A volume with dirty blocks keeps its record in any mode.
            if writes_back || volume.dirty_blocks + volume.unflushed_blocks > 0 {
                continue;
            }
            match while_served {
                WhileServed::Yes => notes.note_completeness(volume.volume, Completeness::Complete),
                WhileServed::No => {
                    self.note_queue
                        .add(notes, QueuedRecord::Completeness(volume.volume, Completeness::Complete));
                }
            }
        }
    }

    /// Queues a record of each local origin's state, by which the next start can detect a write of
    /// another program.
    pub(super) fn note_stops(&mut self) {
        let Some(notes) = &self.notes else { return };
        for Volume { info, .. } in self.core.volumes.iter() {
            if let Some(origin) = self.core.driver.shared_file(Device::Origin(info.id)) {
                self.note_queue.add(notes, QueuedRecord::Stop(info.id, origin));
            }
        }
    }

    /// Queues a record of the dirty and unflushed blocks on a cache device out of service.
    pub(super) fn note_newest(&mut self) {
        let Some(notes) = self.notes.as_ref().filter(|_| self.core.engine.record().is_some()) else { return };
        let newest = |volume: &Volume| {
            let blocks = extents(&self.core.engine.dirty_blocks(volume.info.id));
            NewestBlocks {
                volume: volume.info.name.clone(),
                extents: blocks.iter().map(Extent::from).collect(),
            }
        };
        let newest = self.core.volumes.iter().map(newest).collect();
        let known = self.superblock.volumes.iter().map(|record| record.name.clone()).collect();
        self.note_queue.add(notes, QueuedRecord::Newest { newest, known });
    }
}
