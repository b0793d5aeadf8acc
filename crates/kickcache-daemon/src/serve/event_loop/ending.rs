//! A clean stop.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::time::Instant;

use super::EventLoop;
use kickcache_units::counted;

use crate::serve::core::{LoopPhase, engine_span};
use crate::serve::error::ServeError;
use crate::serve::event_loop::dirty_notes::WhileServed;
use crate::serve::event_loop::trouble_log::seconds;
use crate::serve::verbs::exchange::UncleanBlocks;

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn begin_stop(&mut self, now: Instant, why: &str) {
        if self.core.stage != LoopPhase::Serving {
            return tracing::info!(event = "stop_repeated", "the server is stopping already");
        }
        tracing::info!(event = "stop_begun", "the server stops, because {why}");
        self.core.stage = LoopPhase::Finishing;
        self.stop_wait.begin(now);
        self.frontends.stop_listening(&mut self.core);
        self.core.accept_again = None;
    }

    /// Advances the stop; `true` when the loop can end.
    pub(super) fn advance_stage(&mut self, now: Instant) -> bool {
        let is_done =
            self.core.requests.is_empty() && self.frontends.is_idle() && !self.is_storing_superblock();
        if self.core.stage == LoopPhase::Finishing && is_done {
            self.core.engine.stop(now);
            self.core.stage = LoopPhase::Stopping;
            self.pump(now);
        }
        if self.core.stage == LoopPhase::Stopping && self.core.engine.phase() == Phase::Stopped {
            self.core.stage = LoopPhase::Goodbye(now.plus(engine_span(self.core.limits.goodbye_max)));
            self.note_dirty(WhileServed::No);
            self.note_newest();
            self.note_stops();
            self.note_wear(now);
            self.note_journal();
        }
        let LoopPhase::Goodbye(until) = self.core.stage else { return false };
        self.end_note_journal();
        let is_noting = !self.note_queue.is_empty() || self.journal_note.is_storing();
        if until > now && !self.frontends.is_quiet() || is_noting {
            return false;
        }
        self.frontends.close(&mut self.core);
        let volumes = &self.core.volumes;
        self.core.complaints.tell_all_held_back(now, |volume| volumes.name(volume));
        self.tell_end();
        true
    }

    /// Begins to record the durable journal blocks in the superblock.
    fn note_journal(&mut self) {
        if self.takeover.is_unnoted() {
            return;
        }
        let cache = self.core.driver.shared_file(Device::Cache);
        let (Some(journal), Some(cache)) = (self.core.engine.stopped_journal(), cache) else { return };
        self.superblock.journal = journal;
        let begun = self.journal_note.begin(cache, self.superblock.clone());
        if let Err(error) = begun.map_err(ServeError::system("start a thread")) {
            self.tell_no_journal_note(&error);
        }
    }

    fn end_note_journal(&mut self) {
        if let Some(Err(error)) = self.journal_note.poll() {
            self.tell_no_journal_note(&error);
        }
    }

    fn tell_no_journal_note(&self, error: &ServeError) {
        let device = self.cache.display();
        tracing::warn!(
            event = "superblock_not_updated",
            "the superblock of {device} does not know the journal as it is now: {error}"
        );
    }

    fn tell_end(&self) {
        if self.left_behind().is_some() {
            return;
        }
        let left = |left: &UncleanBlocks| format!("{} of {}", counted(left.blocks, "block"), left.volume);
        let left: Vec<String> = self.unclean().iter().map(left).collect();
        let left = match left.as_slice() {
            [] => String::new(),
            some => format!("; on {} alone: {}", self.cache.display(), some.join(", ")),
        };
        tracing::info!(
            event = "stopped",
            "the server has stopped; all acknowledged writes are on the cache device or the origin{left}"
        );
    }

    /// The reason why a stop waits, if a message is due.
    pub(super) fn poll_wait(&mut self, now: Instant) -> Option<String> {
        self.stop_wait.poll(now).then(|| self.awaited(now))
    }

    /// Ends the wait of a stop if the log has named its reason; else the stop begins or continues.
    pub(super) fn insist(&mut self, now: Instant) {
        if !self.stop_wait.end() {
            self.begin_stop(now, "a stop was requested");
        }
    }

    /// The error that ends the loop before the stop is complete, if a user has insisted.
    pub(super) fn given_up(&self, now: Instant) -> Option<ServeError> {
        if !self.stop_wait.is_ended() {
            return None;
        }
        let (cache, awaited) = (self.cache.display(), self.awaited(now));
        let state = match self.core.engine.phase() {
            Phase::Stopped => "is closed cleanly, but its records in the state directory are not up to date",
            Phase::Recovering | Phase::Running | Phase::Stopping | Phase::Failed(_) => {
                "is as after kill -9, with its dirty blocks, and is not marked clean; the next start recovers its log"
            }
        };
        let what = format!("a signal ended the stop, which did not wait for {awaited}: {cache} {state}");
        Some(ServeError::GivenUp { what })
    }

    pub(super) fn awaited(&self, now: Instant) -> String {
        let mut awaited: Vec<String> = Vec::new();
        for load in self.core.driver.loads() {
            let (name, owes) =
                (self.show_device(load.device), counted(load.operation_count as u64, "operation"));
            let silent = self.core.engine.silent_since(load.device).map(|since| seconds(now.since(since)));
            awaited.push(match silent.filter(|span| *span > 0) {
                Some(span) => {
                    format!("{name} ({owes} in flight, none completed for {span} s)")
                }
                None => format!("{name} ({owes} in flight)"),
            });
        }
        if self.is_storing_superblock() {
            awaited.push(format!("the superblock of {}, which is being written", self.cache.display()));
        }
        if !self.note_queue.is_empty() {
            awaited.push("records on their way to the state directory".into());
        }
        let requests = self.core.requests.len();
        if requests > 0 || awaited.is_empty() {
            awaited.push(format!("{} of clients and virtual machines", counted(requests as u64, "request")));
        }
        awaited.join(", ")
    }
}
