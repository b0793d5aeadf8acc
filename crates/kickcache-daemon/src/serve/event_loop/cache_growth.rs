//! The growth of a cache device on request: threads extend, check and record it, as each step may wait for
//! the device.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::{Duration, Instant};

use crate::devices::cache_device::{Extended, extend, store_superblock};
use crate::driver::device::BlockFile;
use crate::serve::background::Background;
use crate::serve::control::CacheGrown;
use crate::serve::error::ServeError;
use crate::wakeup::Wakeup;

/// The longest wait of a caller for a device: less than a client's wait for an answer.
const ANSWER_MAX: Duration = Duration::from_millis(8_000);

/// The channel for the answer to the caller.
pub(crate) type GrowthAnswer = Sender<Result<CacheGrown, ServeError>>;

/// The growth of the cache device, if it is in progress.
pub(crate) struct CacheGrowth {
    background: Background<GrowthOutcome>,
    step: Option<GrowthStep>,
    /// The caller, until the new size was checked.
    pub(crate) reply_wait: ReplyWait<CacheGrown>,
}

/// The step of a growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GrowthStep {
    /// The device is extended to this size, or to its end, and examined.
    Looking(Option<u64>),
    /// The engine prepares its structures for the new size.
    Preparing(Extended),
    /// The superblock is written.
    Storing(Extended),
}

/// The result of a step.
pub(crate) enum GrowthOutcome {
    /// The possible size of the device; `None` if the cache device has the requested size already.
    Looked(Result<Option<Extended>, ServeError>),
    /// The superblock, written or not.
    Stored(Box<Superblock>, Result<(), ServeError>),
}

impl CacheGrowth {
    /// The state without a growth in progress.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> CacheGrowth {
        CacheGrowth { background: Background::new(wakeup), step: None, reply_wait: ReplyWait::nobody() }
    }

    /// The present step, if a growth is in progress.
    pub(crate) fn step(&self) -> Option<GrowthStep> {
        self.step
    }

    /// Bytes that the device is to use; `None` until they were checked, and without a growth.
    pub(crate) fn size(&self) -> Option<u64> {
        match self.step? {
            GrowthStep::Looking(_) => None,
            GrowthStep::Preparing(Extended { size, .. }) | GrowthStep::Storing(Extended { size, .. }) => {
                Some(size)
            }
        }
    }

    /// Whether the superblock is being written.
    pub(crate) fn is_storing(&self) -> bool {
        matches!(self.step, Some(GrowthStep::Storing(_)))
    }

    /// Extends the device and looks at it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn look(
        &mut self,
        cache: Arc<BlockFile>,
        superblock: Superblock,
        wanted: Option<u64>,
    ) -> io::Result<()> {
        self.background.begin(move || GrowthOutcome::Looked(extend(&cache, &superblock, wanted)))?;
        self.step = Some(GrowthStep::Looking(wanted));
        Ok(())
    }

    /// Notes that the engine prepares for the new size.
    pub(crate) fn prepare(&mut self, extended: Extended) {
        self.step = Some(GrowthStep::Preparing(extended));
    }

    /// Writes the superblock of the device as it has grown.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn store(
        &mut self,
        extended: Extended,
        cache: Arc<BlockFile>,
        mut superblock: Box<Superblock>,
    ) -> io::Result<()> {
        self.background.begin(move || {
            let stored = store_superblock(&cache, &mut superblock);
            GrowthOutcome::Stored(superblock, stored)
        })?;
        self.step = Some(GrowthStep::Storing(extended));
        Ok(())
    }

    /// The result of the step that ended.
    pub(crate) fn poll(&self) -> Option<GrowthOutcome> {
        self.background.poll()
    }

    /// Ends the growth.
    pub(crate) fn end(&mut self) {
        self.step = None;
    }
}

/// A caller that waits for a device, or none.
pub(crate) struct ReplyWait<T>(Option<PendingReply<T>>);

struct PendingReply<T> {
    answer: Sender<Result<T, ServeError>>,
    until: Instant,
}

impl<T> ReplyWait<T> {
    /// A wait without a caller.
    pub(crate) const fn nobody() -> ReplyWait<T> {
        ReplyWait(None)
    }

    /// Lets a caller wait from now on.
    pub(crate) fn wait(&mut self, now: Instant, answer: Sender<Result<T, ServeError>>) {
        self.0 = Some(PendingReply { answer, until: now.plus(ANSWER_MAX) });
    }

    /// Whether no client waits for an answer.
    pub(crate) fn is_nobody(&self) -> bool {
        self.0.is_none()
    }

    /// Answers the caller, unless it has been answered already.
    pub(crate) fn answer(&mut self, result: Result<T, ServeError>) {
        if let Some(waiting) = self.0.take() {
            // If the caller does not wait any more, the failed send is harmless.
            let _ = waiting.answer.send(result);
        }
    }

    /// The time at which the caller has waited for the limit.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.as_ref().map(|waiting| waiting.until)
    }

    /// Whether the caller has waited for the time limit.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.poll_timeout().is_some_and(|until| until <= now)
    }
}
