//! The exclusive right of a script to write the superblock.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use kickcache_engine::format::superblock::Superblock;

use crate::driver::clock::WatchedTime;
use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::superblock_lease::{LeaseAnswer, LeaseNumber, SuperblockLease, SuperblockWriter};

/// The longest wait for another operation, in the operations whose callers wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time between two readings of the stopwatch.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The present superblock, and the exclusive right to write it. The right ends when this is dropped.
pub(crate) struct HeldSuperblock {
    pub(crate) superblock: Superblock,
    /// `None` while volumes are served without a cache device.
    pub(crate) cache: Option<Arc<BlockFile>>,
    _request: LeaseRequest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeaseWait {
    /// At most [`PATIENCE`].
    Short,
    Unlimited,
}

struct LeaseRequest {
    server: ServerHandle,
    number: LeaseNumber,
}

impl Drop for LeaseRequest {
    fn drop(&mut self) {
        let number = self.number;
        // If the loop has ended, the lease has ended with it.
        drop(self.server.in_turn(move |verbs, _| verbs.end_lease(number)));
    }
}

impl HeldSuperblock {
    /// Waits until no other operation writes the superblock.
    ///
    /// # Errors
    /// An obstacle to the operation; [`ServeError::Busy`] after the longest wait, and [`ServeError::Stopped`].
    pub(crate) fn wait(
        server: &ServerHandle,
        writer: SuperblockWriter,
        wait: LeaseWait,
    ) -> Result<HeldSuperblock, ServeError> {
        HeldSuperblock::request(server, wait, move |verbs, answer| verbs.wait_for_superblock(writer, answer))
    }

    /// Like [`HeldSuperblock::wait`], for a growth, which also waits for the engine.
    ///
    /// # Errors
    /// [`ServeError::Stopped`] if the server is stopping; [`ServeError::Engine`] if the device is out of service.
    pub(crate) fn wait_for_growth(server: &ServerHandle) -> Result<HeldSuperblock, ServeError> {
        HeldSuperblock::request(server, LeaseWait::Unlimited, |verbs, answer| {
            verbs.wait_to_store_growth(answer)
        })
    }

    fn request(
        server: &ServerHandle,
        wait: LeaseWait,
        verb: impl FnOnce(&mut dyn Verbs, LeaseAnswer) -> LeaseNumber + Send + 'static,
    ) -> Result<HeldSuperblock, ServeError> {
        let (answer, answered) = mpsc::channel();
        let number = server.in_turn(move |verbs, _| verb(verbs, answer))?;
        let request = LeaseRequest { server: server.clone(), number };
        let SuperblockLease { superblock, cache } = match wait {
            LeaseWait::Unlimited => answered.recv().map_err(|_| ServeError::Stopped)??,
            LeaseWait::Short => within_patience(&answered).unwrap_or_else(|| {
                let what = "another change of it is in progress; try again".into();
                Err(ServeError::Busy { path: server.device(), what })
            })?,
        };
        Ok(HeldSuperblock { superblock, cache, _request: request })
    }
}

fn within_patience<T>(answered: &Receiver<Result<T, ServeError>>) -> Option<Result<T, ServeError>> {
    let mut waited = WatchedTime::begin();
    loop {
        match answered.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return Some(Err(ServeError::Stopped)),
            Err(RecvTimeoutError::Timeout) if waited.look() >= PATIENCE => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
