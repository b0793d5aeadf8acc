//! What is noted of dirty blocks for the next start, at the start and at the end of serving.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::Mode;

use super::EventLoop;

/// Whether clients may write from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhileServed {
    Yes,
    No,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Brings the notes up to date: in write-back a volume that is served may become dirty at any time.
    pub(crate) fn note_dirty(&self, while_served: WhileServed) {
        let Some(notes) = &self.notes else { return };
        for volume in self.core.engine.status().volumes {
            let served = self.core.volumes.iter().find(|served| served.info.id == volume.volume);
            let is_writable = served.is_some_and(|served| !served.info.read_only);
            let writes_back =
                is_writable && volume.mode == Mode::WriteBack && while_served == WhileServed::Yes;
            notes.settle(volume.volume, writes_back || volume.dirty_blocks + volume.unflushed_blocks > 0);
        }
    }
}
