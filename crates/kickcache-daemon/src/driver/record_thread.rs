//! A thread that writes records about the cache device.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use kickcache_engine::units::VolumeSet;

use crate::wakeup::Wakeup;

/// Keeps durably that the cache device is out of service, and which volumes may need it; returns whether the record was
/// written.
pub type RecordSink = Box<dyn FnMut(VolumeSet) -> bool + Send>;

pub(crate) struct RecordEnd {
    pub(crate) token: u32,
    pub(crate) is_kept: bool,
}

/// The end of the thread is not awaited, as its disk may hang.
pub(crate) struct RecordThread {
    sender: Sender<(u32, VolumeSet)>,
    kept: Arc<Mutex<Vec<RecordEnd>>>,
    wakeup: Arc<Wakeup>,
}

impl RecordThread {
    pub(crate) fn start(mut keep: RecordSink) -> io::Result<RecordThread> {
        let (sender, asked) = mpsc::channel::<(u32, VolumeSet)>();
        let (kept, wakeup) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Wakeup::new()?));
        let (to, bell) = (Arc::clone(&kept), Arc::clone(&wakeup));
        thread::Builder::new().name("kickcache-note".into()).spawn(move || {
            for (token, incomplete) in asked {
                let is_kept = keep(incomplete);
                to.lock().unwrap_or_else(PoisonError::into_inner).push(RecordEnd { token, is_kept });
                bell.ring();
            }
        })?;
        Ok(RecordThread { sender, kept, wakeup })
    }

    /// Requests a record; `false` if the thread has ended.
    pub(crate) fn ask(&self, token: u32, incomplete: VolumeSet) -> bool {
        self.sender.send((token, incomplete)).is_ok()
    }

    /// A descriptor that is readable when the writing of a record has ended.
    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    pub(crate) fn take(&self) -> Vec<RecordEnd> {
        self.wakeup.clear();
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
