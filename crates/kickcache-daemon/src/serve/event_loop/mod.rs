//! The loop: completions and requests of front ends in; submissions and replies out; then one wait for all
//! events.
//!
//! One thread owns engine, driver and front ends.

pub(crate) mod cache_takeover;
pub(crate) mod dirty_notes;
mod ending;
mod exchange;
mod grow;
mod loop_commands;
mod loss;
mod membership;
mod patience;
mod resize;
mod superblock;
mod take_over;
mod trouble_log;
mod verbs;
mod wear;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::{Device, Submission};
use kickcache_engine::engine::Phase;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::Reply;
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::BlockKey;

use crate::devices::journal_note::JournalNote;
use crate::devices::origin_records::OriginRecords;
use crate::devices::record_queue::RecordQueue;
use crate::driver::Interest;
use crate::plan::write_budget::WriteBudget;
use crate::serve::core::{Core, LoopPhase};
use crate::serve::error::ServeError;
use crate::serve::event_loop::cache_takeover::CacheTakeover;
use crate::serve::frontend::Frontends;
use crate::serve::frontend::kinds::WatchKey;
use crate::serve::frontend::loop_step::LoopStep;
use crate::serve::origin::SAMPLES_MAX;
use crate::serve::out_of_service::OutOfService;
use crate::serve::recovery::Recovery;
use crate::serve::stop_wait::StopWait;
use crate::serve::troubles::Troubles;
use crate::serve::verbs::Control;
use crate::serve::verbs::exchange::{RequestHold, UncleanBlocks};
use crate::serve::verbs::growth::RunningGrowth;
use crate::serve::verbs::membership::LeavingVolume;
use crate::serve::verbs::resizes::RunningResizes;
use crate::serve::verbs::superblock_lease::SuperblockQueue;
use crate::shell_command::DaemonCommands;
use crate::wakeup::Wakeup;

/// If completions are handled in turns, a turn takes up to one in [`TURNS`] of the operations in flight, or
/// up to [`TURN_LEAST`] if that is more.
const TURNS: usize = 8;
const TURN_LEAST: usize = 2;
/// If the gaps of the loop since the last sleep add up to this time or more, the log reports them.
const MISSED_TOLD: Duration = Duration::from_millis(2_000);
const CONTROL_KEY: u64 = 0;

/// Whether submissions reach the origins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origins {
    /// Only submissions of the recovery are accepted: the origins are still to be compared with the clean blocks.
    Compared,
    Used,
}

pub(crate) struct EventLoop<E> {
    pub(crate) core: Core<E>,
    pub(crate) frontends: Frontends,
    pub(crate) cache: PathBuf,
    /// The superblock of the cache device, or of its stand-in.
    pub(crate) superblock: Superblock,
    pub(crate) out_of_service: OutOfService,
    /// The damaged blocks at the last check.
    pub(crate) damaged: Vec<BlockKey>,
    pub(crate) control: Receiver<Control>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) troubles: Troubles,
    pub(crate) notes: Option<Arc<OriginRecords>>,
    pub(crate) note_queue: RecordQueue,
    pub(crate) resizes: RunningResizes,
    pub(crate) growth: Option<RunningGrowth>,
    pub(crate) takeover: CacheTakeover,
    pub(crate) journal_note: JournalNote,
    /// The budget as configured, which may be a share of the cache device.
    pub(crate) write_budget: Option<WriteBudget>,
    pub(crate) leaving: Option<LeavingVolume>,
    pub(crate) request_hold: RequestHold,
    pub(crate) superblock_queue: SuperblockQueue,
    pub(crate) stop_wait: StopWait,
    pub(crate) commands: DaemonCommands,
    /// The position of the volume with the curve in the next sample, modulo the number of volumes.
    pub(crate) curve_turn: usize,
    pub(crate) recovery: Recovery,
    pub(crate) origins: Origins,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Runs until the server was stopped.
    ///
    /// # Errors
    /// [`ServeError::GivenUp`] if a stop was cut short: devices may still work on the loop's memory then,
    /// which must stay. [`ServeError::LeftBehind`] if blocks are on a cache device out of service alone, or
    /// data are lost. [`ServeError::System`] if the system refuses to submit I/O or to wait for events.
    pub(crate) fn run(&mut self) -> Result<Vec<UncleanBlocks>, ServeError> {
        self.watch_all();
        self.core.begin_first_turn();
        loop {
            let now = self.core.begin_turn();
            self.core.begin_due();
            self.frontends.take_requests(&mut self.core);
            if self.takeover.step.is_some() {
                self.advance_takeover(now);
            }
            self.pump(now);
            if self.takeover.step.is_some() {
                self.desert_silent_successor(now);
            }
            self.lend_to_growth();
            self.frontends.take_extents(&mut self.core);
            self.tell_out_of_service();
            self.tell_troubles(now);
            self.release_late_requests(now);
            if self.frontends.send(&mut self.core)? == LoopStep::GoOn {
                continue;
            }
            if self.advance_stage(now) {
                self.tell_last_troubles(now);
                return self.left_behind().map_or_else(|| Ok(self.unclean()), Err);
            }
            let now = self.core.begin_turn();
            let until = self.next_deadline();
            let slept = self.core.driver.wait_beside(now, until, &mut self.frontends);
            let slept = slept.map_err(ServeError::system("wait for events"))?;
            self.core.begin_turn_after(until);
            self.note_sleep(slept);
            self.take_events();
            if let Some(error) = self.given_up(self.core.now) {
                self.tell_last_troubles(self.core.now);
                return Err(error);
            }
        }
    }

    fn watch_all(&mut self) {
        self.core.driver.watch(self.wakeup.as_fd(), CONTROL_KEY, Interest::Readable);
        self.frontends.watch(&mut self.core);
    }

    /// Submissions after the recovery may write to an origin: they wait until the origins are compared.
    fn next_submission(&mut self) -> Option<Submission> {
        let engine = &mut self.core.engine;
        match self.origins {
            Origins::Compared if engine.phase() != Phase::Recovering => None,
            Origins::Compared | Origins::Used => engine.poll_submission(),
        }
    }

    pub(crate) fn pump(&mut self, now: Instant) {
        let mut left = if self.frontends.wants_turns() {
            (self.core.driver.in_flight() / TURNS).max(TURN_LEAST)
        } else {
            usize::MAX
        };
        let turn = left;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            while let Some(submission) = self.next_submission() {
                self.core.submit(now, submission);
                moved = true;
            }
            while let Some(reply) = self.core.engine.poll_reply() {
                self.handle_reply(reply);
                moved = true;
            }
            while left > 0 && self.core.pass_completion(now) {
                left -= 1;
                moved = true;
            }
            if left > 0 {
                // A restart is reported to the engine only when all completions of the old server have been
                // handled.
                moved |= self.take_restarts(now);
            }
        }
        if left < turn {
            self.troubles.see_work();
        }
        if self.core.driver.has_faults() {
            self.take_faults(now);
        }
    }

    /// Reports to the engine the origins that may have lost unflushed data.
    fn take_restarts(&mut self, now: Instant) -> bool {
        let mut has_any = false;
        while let Some(device) = self.core.driver.poll_restart() {
            has_any = true;
            if let Device::Origin(volume) = device {
                self.core.engine.origin_restarted(now, volume);
                let samples = self.core.engine.clean_samples(volume, SAMPLES_MAX);
                self.core.driver.expect(device, samples);
            }
        }
        has_any
    }

    fn handle_reply(&mut self, reply: Reply) {
        let entry = self.core.requests.remove(reply.id);
        self.core.note_time(&entry, &reply);
        self.frontends.on_reply(&mut self.core, entry, &reply);
    }

    /// Reports a sleep to the engine as time of the devices, shortened by the gaps of the loop.
    fn note_sleep(&mut self, slept: Duration) {
        let missed = self.core.take_missed();
        if missed >= MISSED_TOLD {
            tracing::warn!(
                event = "not_running",
                "the daemon did not run for {} s (it or its machine was stopped, or had no processor): devices and clients are not held to \
                 have been silent",
                missed.as_nanos() / 1_000_000_000
            );
        }
        let slept = slept.as_nanos().saturating_sub(missed.as_nanos());
        self.core.engine.handle_sleep(Duration::from_nanos(slept));
    }

    fn take_events(&mut self) {
        let now = self.core.now;
        while let Some((key, interest)) = self.core.driver.poll_ready() {
            match WatchKey::from_bits(key) {
                Some(key) => self.frontends.on_ready(&mut self.core, key, interest),
                None => self.take_controls(now),
            }
        }
        while let Some((key, result)) = self.core.driver.poll_command() {
            if let Some(key) = WatchKey::from_bits(key) {
                self.frontends.on_command(&mut self.core, key, result);
            }
        }
        if self.core.engine.poll_timeout().is_some_and(|due| due <= now) {
            self.core.engine.handle_timeout(now);
        }
        if self.core.accept_again.is_some_and(|due| due <= now) {
            self.core.accept_again = None;
            self.frontends.watch(&mut self.core);
        }
        self.frontends.handle_timeout(&mut self.core);
        let volumes = &self.core.volumes;
        self.core.complaints.tell_held_back(now, |volume| volumes.name(volume));
        self.note_wear_when_due(now);
        if let Some(awaited) = self.poll_wait(now) {
            tracing::warn!(
                event = "stop_waits",
                "the stop waits for {awaited}; SIGTERM now ends it without that, as kill -9 would"
            );
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let goodbye = match self.core.stage {
            LoopPhase::Goodbye(until) if until > self.core.now => Some(until),
            LoopPhase::Goodbye(_) | LoopPhase::Serving | LoopPhase::Finishing | LoopPhase::Stopping => None,
        };
        let log = earlier(self.core.complaints.poll_timeout(), self.stop_wait.poll_timeout());
        let late = self.takeover.poll_timeout(self.core.now);
        let trouble = self.troubles.poll_timeout(self.core.driver.in_flight());
        let late = earlier(late, self.hold_deadline());
        let log = earlier(log, self.core.throttles.poll_timeout());
        let log = earlier(log, self.notes.as_ref().and_then(|_| self.note_queue.poll_timeout()));
        let others = [goodbye, self.frontends.poll_timeout(), self.core.accept_again, log, trouble, late];
        self.core.engine.poll_timeout().into_iter().chain(others.into_iter().flatten()).min()
    }

    pub(crate) fn begin_times(&mut self) {
        let now = self.core.clock.now();
        for volume in self.core.volumes.iter() {
            self.core.times.add(now, volume.info.id);
            self.core.curves.add(volume.info.id);
        }
    }
}

#[cfg(test)]
mod tests;
