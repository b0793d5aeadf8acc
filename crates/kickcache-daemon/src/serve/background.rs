//! Work that may wait for a disk without limit, done by separate threads.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::wakeup::Wakeup;

/// Dropping this does not wait for the threads, as their disk may hang.
pub(crate) struct Background<T> {
    sender: Sender<T>,
    results: Receiver<T>,
    wakeup: Arc<Wakeup>,
}

impl<T: Send + 'static> Background<T> {
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> Background<T> {
        let (sender, results) = mpsc::channel();
        Background { sender, results, wakeup }
    }

    /// # Errors
    /// If the system can start no thread.
    pub(crate) fn begin(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<()> {
        let (sender, wakeup) = (self.sender.clone(), Arc::clone(&self.wakeup));
        let work = move || {
            // The receiver may be dropped.
            let _ = sender.send(work());
            wakeup.ring();
        };
        thread::Builder::new().name("kickcache-wait".into()).spawn(work).map(drop)
    }

    pub(crate) fn poll(&self) -> Option<T> {
        self.results.try_recv().ok()
    }
}
