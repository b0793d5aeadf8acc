//! The write of the journal's end to the superblock, in a thread, as the cache device may not respond.

use std::io;
use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;

use crate::devices::cache_device::store_superblock;
use crate::driver::device::BlockFile;
use crate::serve::background::Background;
use crate::serve::error::ServeError;
use crate::wakeup::Wakeup;

pub(crate) struct JournalNote {
    background: Background<Result<(), ServeError>>,
    is_storing: bool,
}

impl JournalNote {
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> JournalNote {
        JournalNote { background: Background::new(wakeup), is_storing: false }
    }

    /// Begins to write the superblock with the note.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn begin(&mut self, cache: Arc<BlockFile>, mut superblock: Superblock) -> io::Result<()> {
        self.background.begin(move || store_superblock(&cache, &mut superblock))?;
        self.is_storing = true;
        Ok(())
    }

    pub(crate) fn is_storing(&self) -> bool {
        self.is_storing
    }

    pub(crate) fn poll(&mut self) -> Option<Result<(), ServeError>> {
        let stored = self.background.poll()?;
        self.is_storing = false;
        Some(stored)
    }
}
