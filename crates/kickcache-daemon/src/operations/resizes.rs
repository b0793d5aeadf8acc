//! New sizes of origins, on request: read and recorded by threads, as each step may wait for a device.
//!
//! A size is read from the origin first, and then written to the superblock, one size at a time.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::VolumeId;

use crate::devices::cache_device::store_superblock;
use crate::driver::device::BlockFile;
use crate::serve::background::Background;
use crate::serve::control::Resized;
use crate::serve::error::ServeError;
use crate::wakeup::Wakeup;

/// The longest wait of a caller for devices: less than a client's wait for an answer.
const ANSWER_MAX: Duration = Duration::from_millis(8_000);

/// The channel for the answer to the caller.
pub(crate) type Answer = Sender<Result<Resized, ServeError>>;

/// The resizes in progress, one a volume.
pub(crate) struct Resizes {
    background: Background<Outcome>,
    under_way: Vec<Resize>,
}

/// A volume that has grown.
pub(crate) struct Grown {
    pub(crate) volume: VolumeId,
    /// The new size of the volume in bytes.
    pub(crate) size: u64,
}

/// A resize in progress of a volume.
struct Resize {
    volume: VolumeId,
    step: ResizeStep,
    /// The caller; `None` once it was answered.
    answer: Option<Answer>,
    until: Instant,
}

/// The step of a resize.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResizeStep {
    /// The origin's size is being read.
    Looking,
    /// The new size waits until no other change writes the superblock.
    Waiting(u64),
    /// The new size is written to the superblock.
    Storing(u64),
}

/// The result of a step.
pub(crate) enum Outcome {
    /// The size of an origin in bytes, or the error of the look-up.
    Looked(VolumeId, io::Result<u64>),
    /// The superblock, written or not.
    Stored(VolumeId, Box<Superblock>, Result<(), ServeError>),
}

/// A caller that has waited for the time limit.
pub(crate) struct Overdue {
    pub(crate) volume: VolumeId,
    pub(crate) step: ResizeStep,
    pub(crate) answer: Answer,
}

impl Resizes {
    /// The state without a resize in progress.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> Resizes {
        Resizes { background: Background::new(wakeup), under_way: Vec::new() }
    }

    /// Whether a resize of a volume is in progress.
    pub(crate) fn has(&self, volume: VolumeId) -> bool {
        self.under_way.iter().any(|resize| resize.volume == volume)
    }

    /// Whether the superblock is being written.
    pub(crate) fn is_storing(&self) -> bool {
        self.under_way.iter().any(|resize| matches!(resize.step, ResizeStep::Storing(_)))
    }

    /// Begins to read the size of an origin.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        volume: VolumeId,
        origin: Arc<BlockFile>,
        answer: Answer,
    ) -> io::Result<()> {
        self.background.begin(move || Outcome::Looked(volume, origin.size_today()))?;
        let until = now.plus(ANSWER_MAX);
        self.under_way.push(Resize { volume, step: ResizeStep::Looking, answer: Some(answer), until });
        Ok(())
    }

    /// Lets a caller wait for the running resize of a volume, if no other caller waits for it any more.
    ///
    /// # Errors
    /// No resize of the volume runs, or a client waits for the running one; returns the answer.
    pub(crate) fn join(&mut self, now: Instant, volume: VolumeId, answer: Answer) -> Result<(), Answer> {
        let is_free = |resize: &&mut Resize| resize.volume == volume && resize.answer.is_none();
        let Some(resize) = self.under_way.iter_mut().find(is_free) else { return Err(answer) };
        (resize.answer, resize.until) = (Some(answer), now.plus(ANSWER_MAX));
        Ok(())
    }

    /// A size was found and waits for the superblock; see [`Resizes::next_to_store`].
    pub(crate) fn wait_to_store(&mut self, volume: VolumeId, size: u64) {
        for resize in self.under_way.iter_mut().filter(|resize| resize.volume == volume) {
            resize.step = ResizeStep::Waiting(size);
        }
    }

    /// The size to be written next; `None` while another size is written, and if none waits.
    pub(crate) fn next_to_store(&self) -> Option<Grown> {
        if self.is_storing() {
            return None;
        }
        self.under_way.iter().find_map(|resize| match resize.step {
            ResizeStep::Waiting(size) => Some(Grown { volume: resize.volume, size }),
            ResizeStep::Looking | ResizeStep::Storing(_) => None,
        })
    }

    /// Writes a superblock, in which the size of a volume has grown.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn store(
        &mut self,
        volume: VolumeId,
        cache: Arc<BlockFile>,
        mut superblock: Box<Superblock>,
    ) -> io::Result<()> {
        self.background.begin(move || {
            let stored = store_superblock(&cache, &mut superblock);
            Outcome::Stored(volume, superblock, stored)
        })?;
        for resize in self.under_way.iter_mut().filter(|resize| resize.volume == volume) {
            if let ResizeStep::Waiting(size) = resize.step {
                resize.step = ResizeStep::Storing(size);
            }
        }
        Ok(())
    }

    /// The result of the next step that ended.
    pub(crate) fn poll(&self) -> Option<Outcome> {
        self.background.poll()
    }

    /// Ends the resize of a volume; answers the caller, unless it has been answered already.
    pub(crate) fn end(&mut self, volume: VolumeId, result: Result<Resized, ServeError>) {
        let Some(index) = self.under_way.iter().position(|resize| resize.volume == volume) else { return };
        if let Some(answer) = self.under_way.remove(index).answer {
            // If the caller does not wait any more, the failed send is harmless.
            let _ = answer.send(result);
        }
    }

    /// The time at which [`Resizes::poll_overdue`] returns the next caller.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().filter(|resize| resize.answer.is_some()).map(|resize| resize.until).min()
    }

    /// A caller that has waited for the time limit; the resize continues without it.
    pub(crate) fn poll_overdue(&mut self, now: Instant) -> Option<Overdue> {
        let is_due = |resize: &&mut Resize| resize.answer.is_some() && resize.until <= now;
        let resize = self.under_way.iter_mut().find(is_due)?;
        Some(Overdue { volume: resize.volume, step: resize.step, answer: resize.answer.take()? })
    }
}
