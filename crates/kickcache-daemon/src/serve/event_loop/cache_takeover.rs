//! A device that takes over from the cache device.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant as WallTime;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::format::takeover::{OtherDevice, Takeover};
use kickcache_engine::mirror::Mirror;
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::ByteExtent;

use crate::devices::cache_device::store_superblock;
use crate::devices::cache_device::successor::{
    Successor, check_place, flush, note_replaced, read_part, write_part,
};
use crate::devices::origin_records::OriginRecords;
use crate::devices::state::StateError;
use crate::driver::device::BlockFile;
use crate::serve::background::Background;
use crate::serve::config::StatePlace;
use crate::serve::control::{TakeoverBegun, TakeoverStage};
use crate::serve::core::engine_span;
use crate::serve::error::ServeError;
use crate::serve::event_loop::patience::{PATIENCE_SECONDS, Patience};
use crate::serve::verbs::takeover_order::{OrderTime, TakeoverAnswer, TakeoverOrder};
use crate::wakeup::Wakeup;
use crate::whole_path::shown_path;

/// A pause between two checks whether the next step can begin.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// A pause between two checks of an abandoned takeover.
const QUIET_PAUSE: Duration = Duration::from_millis(20);

/// The most checks, at least a second apart, of one part being copied.
const COPY_LOOKS_MAX: u32 = 60;

#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) old: Arc<BlockFile>,
    pub(crate) new: Arc<BlockFile>,
    /// The old device's record of the new one.
    pub(crate) called: OtherDevice,
}

pub(crate) struct CacheTakeover {
    background: Background<TakeoverOutcome>,
    pub(crate) step: Option<TakeoverStep>,
    /// The path of the cache device.
    pub(crate) device: Arc<Mutex<PathBuf>>,
    /// The path of the new device, from the begin of the takeover to its end.
    pub(crate) with: Option<String>,
    pub(crate) given: OrderTime,
    /// The two devices, from the time when the new one was made ready to the end of the takeover.
    pub(crate) pair: Option<Pair>,
    /// Why the last takeover failed; `None` for a refused command. Cleared when a new one begins.
    pub(crate) failure: Option<String>,
    /// Whether the present cache device has taken over from another since the start.
    pub(crate) is_done: bool,
    is_busy: bool,
    /// Whether the thread of the takeover writes a part to the new device.
    is_at_new: Arc<AtomicBool>,
    /// The number of steps that threads have ended.
    ends: u64,
    /// How long clients wait for I/O on the new device, before the takeover is given up.
    twins: Patience,
    /// How long clients wait for the part being copied, before the takeover is given up.
    part: Patience,
    /// Longer patience with the part being copied, whether clients wait or not.
    copy: Patience,
    /// How long a stop waits for a superblock or record that a thread of the takeover writes.
    stop: Patience,
    /// The caller that waits until the copy begins or the takeover fails.
    pub(crate) reply: Option<TakeoverAnswer>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakeoverStep {
    Preparing,
    /// The old device records that a successor is being made.
    Announcing,
    /// Parts are copied, the next one not before this time.
    Copying(Instant),
    Flushing,
    /// The superblocks are to be written, not before this time.
    Sealed(Instant),
    Recording,
    /// A stop does not wait any more for a superblock or record of the takeover: the next start decides by
    /// the superblocks.
    Unnoted,
    /// The takeover waits until no I/O is in flight on either device.
    Parting,
    /// The takeover was abandoned, and waits until no I/O is in flight on the new device.
    GivenUp(TakeoverFate),
    /// The old device's record of the new one is removed.
    Forgetting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakeoverFate {
    /// The next start begins the takeover again.
    Resumed,
    /// The old device's record of the new one is to be removed.
    Forgotten,
}

pub(crate) enum TakeoverOutcome {
    Prepared(Result<Successor, ServeError>),
    Announced(Box<Superblock>, Result<(), ServeError>),
    /// With the time for the part.
    Copied(Result<(), ServeError>, Duration),
    /// The new device was flushed and is at its recorded path, or not.
    Flushed(Result<(), ServeError>),
    Noted(Result<Box<Superblock>, ServeError>),
    Recorded(Box<Superblock>, Result<(), StateError>),
}

impl CacheTakeover {
    pub(crate) fn new(wakeup: Arc<Wakeup>, device: PathBuf) -> CacheTakeover {
        CacheTakeover {
            background: Background::new(wakeup),
            step: None,
            device: Arc::new(Mutex::new(device)),
            with: None,
            given: OrderTime::Now,
            pair: None,
            failure: None,
            is_done: false,
            is_busy: false,
            is_at_new: Arc::default(),
            ends: 0,
            twins: Patience::default(),
            part: Patience::default(),
            copy: Patience::of_looks(COPY_LOOKS_MAX),
            stop: Patience::default(),
            reply: None,
        }
    }

    /// Whether the takeover writes the superblock, or keeps it for its last steps.
    pub(crate) fn is_storing(&self) -> bool {
        match self.step {
            Some(TakeoverStep::Announcing | TakeoverStep::Forgetting) => self.is_busy,
            Some(TakeoverStep::Sealed(_) | TakeoverStep::Recording | TakeoverStep::Parting) => true,
            Some(
                TakeoverStep::Preparing
                | TakeoverStep::Copying(_)
                | TakeoverStep::Flushing
                | TakeoverStep::Unnoted
                | TakeoverStep::GivenUp(_),
            )
            | None => false,
        }
    }

    /// Whether the superblocks must not be written until the next start.
    pub(crate) fn is_unnoted(&self) -> bool {
        self.step == Some(TakeoverStep::Unnoted)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// # Errors
    /// If no thread can be started.
    pub(crate) fn prepare(
        &mut self,
        order: TakeoverOrder,
        old: Arc<BlockFile>,
        superblock: Superblock,
        state: StatePlace,
    ) -> io::Result<()> {
        let TakeoverOrder { spec, check, given } = order;
        let with = shown_path(&spec.path);
        self.begin(move || {
            let prepared = check().and_then(|()| Successor::prepare(&spec, &old, &superblock, &state));
            TakeoverOutcome::Prepared(prepared.map_err(ServeError::of_successor))
        })?;
        (self.step, self.with, self.failure) = (Some(TakeoverStep::Preparing), Some(with), None);
        self.given = given;
        Ok(())
    }

    pub(crate) fn answer(&mut self, result: Result<TakeoverBegun, ServeError>) {
        if let Some(reply) = self.reply.take() {
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        }
    }

    /// The stage of the takeover for reports; `None` without a takeover, and for an abandoned one.
    pub(crate) fn stage(&self) -> Option<TakeoverStage> {
        match self.step? {
            TakeoverStep::Preparing | TakeoverStep::Announcing => Some(TakeoverStage::Preparing),
            TakeoverStep::Copying(_) | TakeoverStep::Flushing => Some(TakeoverStage::Copying),
            TakeoverStep::Sealed(_)
            | TakeoverStep::Recording
            | TakeoverStep::Unnoted
            | TakeoverStep::Parting => Some(TakeoverStage::TakingOver),
            TakeoverStep::GivenUp(_) | TakeoverStep::Forgetting => None,
        }
    }

    /// Begins to record on the old device that a successor is being made.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn announce(&mut self, pair: Pair, superblock: &Superblock) -> io::Result<()> {
        let begun = Takeover::Begun(pair.called.clone());
        self.store(pair, superblock.with_takeover(begun))
    }

    /// Begins to remove the old device's record of a successor.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn forget(&mut self, pair: Pair, superblock: &Superblock) -> io::Result<()> {
        self.store(pair, superblock.with_takeover(Takeover::None))
    }

    fn store(&mut self, pair: Pair, superblock: Superblock) -> io::Result<()> {
        let mut superblock = Box::new(superblock);
        self.begin(move || {
            let stored = store_superblock(&pair.old, &mut superblock);
            TakeoverOutcome::Announced(superblock, stored)
        })
    }

    /// # Errors
    /// If no thread can be started.
    pub(crate) fn copy(&mut self, pair: Pair, part: ByteExtent) -> io::Result<()> {
        let is_at_new = Arc::clone(&self.is_at_new);
        self.begin(move || {
            let begun = WallTime::now();
            let copied = read_part(&pair.old, part).and_then(|bytes| {
                is_at_new.store(true, Ordering::Relaxed);
                write_part(&pair.new, part, &bytes).map_err(ServeError::of_successor)
            });
            TakeoverOutcome::Copied(copied, engine_span(begun.elapsed()))
        })
    }

    /// Begins to flush the new device, and to check whether the next start will find it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn flush(&mut self, pair: Pair) -> io::Result<()> {
        self.begin(move || {
            let flushed =
                flush(&pair.new).and_then(|()| check_place(&pair.new, Path::new(&pair.called.path)));
            TakeoverOutcome::Flushed(flushed.map_err(ServeError::of_successor))
        })
    }

    /// Begins to note on both devices which one is the cache.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn note(&mut self, pair: Pair, superblock: Superblock) -> io::Result<()> {
        self.begin(move || {
            let noted = note_replaced(&pair.old, &pair.new, &superblock, pair.called);
            TakeoverOutcome::Noted(noted.map(Box::new))
        })
    }

    /// Begins to record in the state directory which device is the cache.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn record(
        &mut self,
        pair: Pair,
        notes: Arc<OriginRecords>,
        superblock: Box<Superblock>,
    ) -> io::Result<()> {
        self.begin(move || {
            let recorded = notes.take_over(&superblock, pair.new.path());
            TakeoverOutcome::Recorded(superblock, recorded)
        })?;
        self.step = Some(TakeoverStep::Recording);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn hang(&mut self) {
        self.begin(|| {
            loop {
                std::thread::park();
            }
        })
        .unwrap();
    }

    fn begin(&mut self, work: impl FnOnce() -> TakeoverOutcome + Send + 'static) -> io::Result<()> {
        self.background.begin(work)?;
        self.is_busy = true;
        Ok(())
    }

    pub(crate) fn poll(&mut self) -> Option<TakeoverOutcome> {
        let outcome = self.background.poll()?;
        self.is_busy = false;
        self.is_at_new.store(false, Ordering::Relaxed);
        self.ends += 1;
        Some(outcome)
    }

    fn can_give_up(&self) -> bool {
        matches!(self.step, Some(TakeoverStep::Copying(_) | TakeoverStep::Flushing))
    }

    fn waits_for_part(&self, mirror: Option<&Mirror>) -> bool {
        let waits = mirror.is_some_and(Mirror::waits_for_part);
        self.can_give_up() && waits && self.is_at_new.load(Ordering::Relaxed)
    }

    /// Whether clients wait for the new device.
    pub(crate) fn waits_for_new(&self, mirror: Option<&Mirror>) -> bool {
        let waits = mirror.and_then(Mirror::waits_for_new).is_some();
        self.waits_for_part(mirror) || self.can_give_up() && waits
    }

    /// The reason to give up a takeover that hangs, if there is one.
    pub(crate) fn why_given_up(&mut self, now: Instant, mirror: Option<&Mirror>) -> Option<String> {
        let waits_for_part = self.waits_for_part(mirror);
        let mirror = mirror.filter(|_| self.can_give_up());
        let is_twin_late = self.twins.is_over(now, mirror.and_then(Mirror::waits_for_new));
        let is_part_late = self.part.is_over(now, waits_for_part.then_some(self.ends));
        let is_copying = self.is_busy && matches!(self.step, Some(TakeoverStep::Copying(_)));
        let is_copy_late = self.copy.is_over(now, is_copying.then_some(self.ends));
        let with = self.with.as_deref().unwrap_or_default();
        if is_twin_late || is_part_late {
            return Some(format!(
                "{with} has completed no operation for {PATIENCE_SECONDS} s, and clients waited for it"
            ));
        }
        is_copy_late.then(|| {
            format!("a part has not been copied to {with} for {COPY_LOOKS_MAX} s; either device hangs")
        })
    }

    /// Whether a stop has waited long enough for a superblock or record that a thread writes.
    pub(crate) fn is_stop_late(&mut self, now: Instant) -> bool {
        let waited_for = (self.is_busy && self.is_storing()).then_some(self.ends);
        self.stop.is_over(now, waited_for)
    }

    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let soon = now.plus(LOOK_PAUSE);
        let patience = earlier(self.twins.poll_timeout(), self.part.poll_timeout());
        let patience = earlier(patience, earlier(self.copy.poll_timeout(), self.stop.poll_timeout()));
        match self.step? {
            _ if self.is_busy => patience,
            TakeoverStep::GivenUp(_) => Some(now.plus(QUIET_PAUSE)),
            TakeoverStep::Unnoted => None,
            TakeoverStep::Copying(due) | TakeoverStep::Sealed(due) => Some(due.max(soon)),
            TakeoverStep::Preparing
            | TakeoverStep::Announcing
            | TakeoverStep::Flushing
            | TakeoverStep::Recording
            | TakeoverStep::Parting
            | TakeoverStep::Forgetting => Some(soon),
        }
    }

    pub(crate) fn end(&mut self) {
        (self.step, self.with, self.pair) = (None, None, None);
    }
}
