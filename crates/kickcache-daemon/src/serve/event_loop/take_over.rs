//! Replacing the cache device while it is served.
//!
//! The order is decisive. First the new device has a complete copy, flushed. Then the old one is marked as
//! replaced. Then the new one is marked as the cache. Then the state directory has the new one's number and
//! path, unless that cannot be written. Then the old device is released.

use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::{Completion, Data, Device};
use kickcache_engine::engine::Phase;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::mirror::Mirror;
use kickcache_engine::mirror::ending::Ending;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::{Duration, Instant};

use super::EventLoop;
use crate::devices::cache_device::successor::Successor;
use crate::devices::state::StateError;
use crate::driver::device::BlockFile;
use crate::driver::executor::{Medium, NamedMedium};
use crate::driver::fault::{Cause, Fault};
use crate::serve::control::{TakeoverBegun, TakeoverProgress};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::event_loop::cache_takeover::{Pair, TakeoverFate, TakeoverOutcome, TakeoverStep};
use crate::serve::event_loop::patience::PATIENCE_SECONDS;
use crate::serve::verbs::takeover_order::{OrderTime, TakeoverAnswer, TakeoverOrder};

/// Longest pause after a copied part.
const COPY_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Time from a failed attempt to record the takeover to the next attempt.
const NOTE_PAUSE: Duration = Duration::from_millis(2_000);

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn begin_takeover(&mut self, order: TakeoverOrder, answer: TakeoverAnswer) {
        let begun = self.device_to_replace().and_then(|old| {
            let state = self.commands.state.clone();
            let begun = self.takeover.prepare(order, old, self.superblock.clone(), state);
            begun.map_err(ServeError::system("start a thread"))
        });
        match begun {
            Ok(()) => self.takeover.reply = Some(answer),
            // The caller may have stopped waiting.
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    fn refuse_takeover(&self, what: &str) -> ServeError {
        ServeError::Cache { path: self.cache.clone(), what: what.into() }
    }

    pub(super) fn device_to_replace(&self) -> Result<Arc<BlockFile>, ServeError> {
        if self.core.stage != LoopPhase::Serving || self.core.engine.phase() != Phase::Running {
            return Err(self.refuse_takeover("the server is stopping; replace it after the next start"));
        }
        if let (Some(pair), Some(TakeoverStep::GivenUp(_))) = (&self.takeover.pair, self.takeover.step) {
            let new = pair.new.path().display();
            let what = format!(
                "the replacement by {new} was cancelled, and the device has not responded yet; replace it when it has, or after the next start"
            );
            return Err(self.refuse_takeover(&what));
        }
        if let Some(pair) = &self.takeover.pair {
            let what = format!("it is being replaced by {} already", pair.new.path().display());
            return Err(self.refuse_takeover(&what));
        }
        if self.takeover.step.is_some() {
            return Err(self.refuse_takeover("it is being replaced already"));
        }
        if self.is_exchanging() {
            return Err(self.refuse_takeover("it is being left out, or another one taken in"));
        }
        if self.growth.is_some() {
            return Err(self.refuse_takeover("it is growing; replace it when that is done"));
        }
        if self.core.engine.health() != CacheHealth::Good {
            return Err(self.refuse_takeover(
                "it is out of service: leave it out first (`kickcache leave-out`); then another one can be taken in",
            ));
        }
        let cache = self.core.driver.shared_file(Device::Cache);
        cache.ok_or_else(|| self.refuse_takeover("its volumes are served without a cache"))
    }

    pub(super) fn advance_takeover(&mut self, now: Instant) {
        while let Some(outcome) = self.takeover.poll() {
            if self.takeover.is_unnoted() {
                // A late result is ignored: a stop has left the takeover to the next start, which decides by
                // the superblocks.
                continue;
            }
            let went_well = match outcome {
                TakeoverOutcome::Prepared(prepared) => {
                    prepared.map(|successor| self.use_successor(successor))
                }
                TakeoverOutcome::Announced(superblock, stored) => {
                    stored.map(|()| self.end_announcement(now, *superblock))
                }
                TakeoverOutcome::Copied(copied, took) => copied.map(|()| self.end_copy(now, took)),
                TakeoverOutcome::Flushed(flushed) => flushed.map(|()| self.seal(now)),
                TakeoverOutcome::Noted(noted) => {
                    self.end_notes(now, noted);
                    Ok(())
                }
                TakeoverOutcome::Recorded(superblock, recorded) => {
                    self.end_record(now, *superblock, recorded);
                    Ok(())
                }
            };
            if let Err(error) = went_well {
                if self.takeover.step != Some(TakeoverStep::Preparing) {
                    self.count_takeover_error(now, cause_of(&error));
                }
                self.fail_takeover(error);
            }
        }
        if let Some(step) = self.takeover.step {
            self.go_on_with_takeover(now, step);
        }
    }

    fn use_successor(&mut self, successor: Successor) {
        let Successor { file, called } = successor;
        self.core.driver.add(NamedMedium { device: Device::Successor, medium: Medium::File(file) });
        let files = [Device::Cache, Device::Successor].map(|device| self.core.driver.shared_file(device));
        if let [Some(old), Some(new)] = files {
            self.takeover.pair = Some(Pair { old, new, called });
            self.takeover.step = Some(TakeoverStep::Announcing);
        }
    }

    fn end_announcement(&mut self, now: Instant, superblock: Superblock) {
        self.superblock = superblock;
        if self.takeover.step != Some(TakeoverStep::Announcing) {
            return self.leave_successor();
        }
        let log = self.superblock.geometry.log();
        self.core.mirror = Some(Mirror::new(log, self.core.driver.changes_in_flight(Device::Cache)));
        self.takeover.step = Some(TakeoverStep::Copying(now));
        let Some(pair) = &self.takeover.pair else { return };
        let (device, with) = (self.cache.display().to_string(), pair.new.path().display().to_string());
        tracing::info!(
            event = "cache_replacement_begun",
            device,
            with,
            "the cache device {device} is being copied to {with}, which then takes over"
        );
        self.takeover.answer(Ok(TakeoverBegun { with, bytes: log.length }));
    }

    /// While requests are in flight, the copy pauses for as long as the last part took, at most
    /// [`COPY_PAUSE_MAX`].
    fn end_copy(&mut self, now: Instant, took: Duration) {
        if let (Some(TakeoverStep::Copying(_)), Some(mirror)) = (self.takeover.step, &mut self.core.mirror) {
            mirror.handle_copied();
            let pause = if self.core.requests.is_empty() {
                Duration::from_nanos(0)
            } else {
                took.min(COPY_PAUSE_MAX)
            };
            self.takeover.step = Some(TakeoverStep::Copying(now.plus(pause)));
        }
    }

    /// Seals the mirror, unless the takeover must be given up.
    fn seal(&mut self, now: Instant) {
        if self.takeover.step == Some(TakeoverStep::Flushing)
            && !self.must_give_up()
            && let Some(mirror) = &mut self.core.mirror
        {
            mirror.seal();
            self.takeover.step = Some(TakeoverStep::Sealed(now));
        }
    }

    pub(super) fn end_notes(&mut self, now: Instant, noted: Result<Box<Superblock>, ServeError>) {
        let Some(mirror) = &mut self.core.mirror else { return };
        // A flush that failed meanwhile may have lost the marks.
        let failure = mirror.take_failure();
        match (noted, failure) {
            (Ok(superblock), None) => self.record_takeover(now, superblock),
            (Ok(_), Some(_)) => self.takeover.step = Some(self.note_later(now)),
            (Err(error), _) => {
                self.count_takeover_error(now, cause_of(&error));
                tracing::error!(
                    event = "cache_replacement_waits",
                    "all is on both devices, and it cannot be noted that one has taken over, which is tried again: {error}"
                );
                self.takeover.step = Some(self.note_later(now));
            }
        }
    }

    /// Records the takeover in the state directory, only after the old device is durably marked as replaced:
    /// else a start after a crash would refuse the old device for its lower number.
    fn record_takeover(&mut self, now: Instant, superblock: Box<Superblock>) {
        let (Some(pair), Some(notes)) = (self.takeover.pair.clone(), self.notes.clone()) else {
            return self.end_record(now, *superblock, Ok(()));
        };
        if let Err(error) = self.takeover.record(pair, notes, superblock) {
            self.takeover.step = Some(self.note_later(now));
            tracing::warn!(
                event = "cache_replacement_waits",
                "the replacement of the cache device waits for a thread: {error}"
            );
        }
    }

    pub(super) fn end_record(
        &mut self,
        now: Instant,
        superblock: Superblock,
        recorded: Result<(), StateError>,
    ) {
        let Some(mirror) = &mut self.core.mirror else { return };
        if mirror.take_failure().is_some() {
            self.takeover.step = Some(self.note_later(now));
            return;
        }
        if let Err(error) = recorded {
            tracing::warn!(
                event = "record_failed",
                "cannot record that another device has taken over from {}: until its next start, a copy of the old one would pass for \
                 the cache, with stale data: {error}",
                self.cache.display()
            );
        }
        mirror.part();
        self.superblock = superblock;
        self.takeover.step = Some(TakeoverStep::Parting);
    }

    /// The step after a failed attempt to record the takeover.
    fn note_later(&self, now: Instant) -> TakeoverStep {
        if self.core.stage == LoopPhase::Serving {
            return TakeoverStep::Sealed(now.plus(NOTE_PAUSE));
        }
        self.tell_unnoted();
        TakeoverStep::Unnoted
    }

    fn tell_unnoted(&self) {
        let old = self.cache.display();
        tracing::warn!(
            event = "cache_replacement_unrecorded",
            "both devices have all data, and the stop does not wait for the record of the takeover: the \
             next start decides by their superblocks. If {old} is marked as replaced, the other one is \
             served; if not, {old} is, and is copied again"
        );
    }

    /// A stop does not wait for a superblock or record that is not written for long.
    fn end_late_notes(&mut self, now: Instant) {
        if self.core.stage == LoopPhase::Serving || !self.takeover.is_stop_late(now) {
            return;
        }
        match self.takeover.step {
            Some(TakeoverStep::Sealed(_) | TakeoverStep::Recording | TakeoverStep::Parting) => {
                self.tell_unnoted();
            }
            _ => tracing::warn!(
                event = "superblock_not_updated",
                "the superblock of {} has not been written for {PATIENCE_SECONDS} s, and the stop does not wait for it",
                self.cache.display()
            ),
        }
        self.takeover.step = Some(TakeoverStep::Unnoted);
    }

    fn go_on_with_takeover(&mut self, now: Instant, step: TakeoverStep) {
        let is_copying = matches!(step, TakeoverStep::Copying(_) | TakeoverStep::Flushing);
        if is_copying && self.must_give_up() {
            return self.give_up_takeover();
        }
        if self.takeover.is_busy() {
            return self.end_late_notes(now);
        }
        let Some(pair) = self.takeover.pair.clone() else { return };
        let begun = match step {
            TakeoverStep::Announcing | TakeoverStep::Forgetting if self.core.stage != LoopPhase::Serving => {
                self.leave_successor();
                Ok(())
            }
            TakeoverStep::Announcing | TakeoverStep::Forgetting if self.is_storing_for_others() => Ok(()),
            TakeoverStep::Announcing => self.takeover.announce(pair, &self.superblock),
            TakeoverStep::Forgetting => self.takeover.forget(pair, &self.superblock),
            TakeoverStep::Copying(due) if due <= now => self.copy_next(pair),
            TakeoverStep::Sealed(due) if due > now && self.core.stage != LoopPhase::Serving => {
                // Only a failed attempt sets a time in the future.
                self.takeover.step = Some(self.note_later(now));
                Ok(())
            }
            TakeoverStep::Sealed(due) if due <= now && !self.is_storing_for_others() => {
                self.takeover.note(pair, self.superblock.clone())
            }
            TakeoverStep::Parting => {
                self.switch(now);
                Ok(())
            }
            TakeoverStep::GivenUp(afterwards) => {
                self.end_mirror(afterwards);
                Ok(())
            }
            TakeoverStep::Preparing
            | TakeoverStep::Copying(_)
            | TakeoverStep::Flushing
            | TakeoverStep::Sealed(_)
            | TakeoverStep::Recording
            | TakeoverStep::Unnoted => Ok(()),
        };
        // If no thread can be started, the step is tried again in the next turn of the loop.
        if let Err(error) = begun {
            tracing::warn!(
                event = "cache_replacement_waits",
                "the replacement of the cache device waits for a thread: {error}"
            );
        }
    }

    /// Whether the takeover must be abandoned: after an error of the new device, if the old one is out of service, or at a
    /// stop.
    fn must_give_up(&self) -> bool {
        let has_failed = self.core.mirror.as_ref().is_some_and(|mirror| mirror.failure().is_some());
        has_failed || self.core.engine.health() != CacheHealth::Good || self.core.stage != LoopPhase::Serving
    }

    fn give_up_takeover(&mut self) {
        if self.core.mirror.as_ref().is_some_and(|mirror| mirror.failure().is_some()) {
            let found = self.troubles.tally(Device::Successor).map(|tally| tally.last.cause);
            self.count_takeover_error(self.core.now, found.unwrap_or(Cause::Errno(libc::EIO)));
            return self.fail_takeover(
                self.refuse_takeover("the device that was to take over failed to store something"),
            );
        }
        if self.core.engine.health() != CacheHealth::Good {
            return self.fail_takeover(self.refuse_takeover("it is out of service now"));
        }
        tracing::info!(
            event = "cache_replacement_stopped",
            "the replacement of {} begins again with the next start",
            self.cache.display()
        );
        self.let_go(TakeoverFate::Resumed);
    }

    fn copy_next(&mut self, pair: Pair) -> std::io::Result<()> {
        let Some(mirror) = &mut self.core.mirror else { return Ok(()) };
        if mirror.is_copied() {
            self.takeover.flush(pair)?;
            self.takeover.step = Some(TakeoverStep::Flushing);
            return Ok(());
        }
        let Some(part) = mirror.poll_copy() else { return Ok(()) };
        let begun = self.takeover.copy(pair, part);
        if begun.is_err()
            && let Some(mirror) = &mut self.core.mirror
        {
            mirror.postpone_copy();
        }
        begun
    }

    /// Counts an error of the replacement in the state of the cache device.
    fn count_takeover_error(&mut self, now: Instant, cause: Cause) {
        let fault = Fault { device: Device::Cache, operation: "replace", offset: 0, length: 0, cause };
        self.troubles.note(now, fault);
    }

    fn fail_takeover(&mut self, error: ServeError) {
        let device = self.cache.display().to_string();
        if self.takeover.step == Some(TakeoverStep::Preparing) {
            if self.takeover.given == OrderTime::Earlier {
                self.takeover.failure = Some(error.to_string());
            }
            tracing::warn!(
                event = "cache_replacement_refused",
                device,
                "the cache device {device} is not replaced: {error}"
            );
        } else {
            self.takeover.failure = Some(error.to_string());
            tracing::error!(
                event = "cache_replacement_failed",
                device,
                "the cache device {device} is not replaced, and stays in use: {error}"
            );
        }
        self.takeover.answer(Err(error));
        match self.takeover.step {
            Some(TakeoverStep::Preparing) | None => self.takeover.end(),
            Some(TakeoverStep::Announcing | TakeoverStep::Forgetting) => self.leave_successor(),
            Some(_) => self.let_go(TakeoverFate::Forgotten),
        }
    }

    /// Abandons a takeover that hangs.
    pub(super) fn desert_silent_successor(&mut self, now: Instant) {
        let Some(what) = self.takeover.why_given_up(now, self.core.mirror.as_ref()) else { return };
        self.count_takeover_error(now, Cause::Errno(libc::ETIMEDOUT));
        self.fail_takeover(self.refuse_takeover(&what));
        let endings = self.core.mirror.as_mut().map(Mirror::desert).unwrap_or_default();
        for ending in endings {
            if let Ending::Ended(id, result) = ending {
                let result = result.map(|()| Data::default());
                self.core.engine.handle_completion(now, Completion { id, result });
            }
        }
        self.pump(now);
    }

    fn let_go(&mut self, afterwards: TakeoverFate) {
        if let Some(mirror) = &mut self.core.mirror {
            mirror.give_up();
        }
        self.takeover.step = Some(TakeoverStep::GivenUp(afterwards));
    }

    /// Removes the mirror if no I/O is in flight on the new device.
    fn end_mirror(&mut self, afterwards: TakeoverFate) {
        if !self.core.mirror.as_ref().is_none_or(Mirror::is_quiet) {
            return;
        }
        self.core.mirror = None;
        match afterwards {
            TakeoverFate::Resumed => self.leave_successor(),
            TakeoverFate::Forgotten => self.takeover.step = Some(TakeoverStep::Forgetting),
        }
    }

    fn leave_successor(&mut self) {
        self.takeover.end();
        // A thread closes the device, as that may take long.
        let parted = self.core.driver.remove(Device::Successor);
        drop(std::thread::Builder::new().spawn(move || drop(parted)));
    }

    /// Makes the new device the cache device if no I/O is in flight on either.
    fn switch(&mut self, now: Instant) {
        let is_idle = |device| self.core.driver.is_idle(device);
        if !is_idle(Device::Cache) || !is_idle(Device::Successor) {
            return;
        }
        let Some(mirror) = self.core.mirror.take() else { return };
        self.end_troubles_of_cache(now);
        let parted = self.core.driver.take_over();
        for submission in mirror.into_held() {
            self.core.driver.submit(now, submission);
        }
        let Some(pair) = self.takeover.pair.take() else { return };
        self.takeover.end();
        self.takeover.is_done = true;
        self.core.times.end_recent(now);
        let before = self.cache.display().to_string();
        self.cache = pair.new.path().into();
        *self.takeover.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = self.cache.clone();
        let device = self.cache.display().to_string();
        tracing::info!(
            event = "cache_replaced",
            device,
            "{device} has taken over from the cache device {before}, which is not used any more; the \
             configuration may still name that one as long as it has this mark"
        );
        drop(std::thread::Builder::new().spawn(move || drop((parted, pair))));
    }

    pub(super) fn takeover_progress(&self) -> Option<TakeoverProgress> {
        let (stage, with) = (self.takeover.stage()?, self.takeover.with.clone()?);
        let log = self.superblock.geometry.log();
        let copied = self.core.mirror.as_ref().map_or(0, Mirror::copied_bytes);
        Some(TakeoverProgress { with, stage, copied, bytes: log.length })
    }
}

fn cause_of(error: &ServeError) -> Cause {
    let errno = match error {
        ServeError::CacheIo { source, .. } | ServeError::Successor { source, .. } => source.raw_os_error(),
        _ => None,
    };
    Cause::Errno(errno.unwrap_or(libc::EIO))
}
