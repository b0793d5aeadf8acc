//! The way to a clean stop, and what the log says while it takes its time.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::engine::Phase;
use kickcache_engine::time::{Duration, Instant};

use super::EventLoop;
use crate::serve::core::{Stage, engine_span};
use crate::serve::event_loop::dirty_notes::WhileServed;

/// How often the log says what a stop waits for.
const TELL_EVERY: Duration = Duration::from_millis(10_000);

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn begin_stop(&mut self, now: Instant, why: &str) {
        if self.core.stage != Stage::Serving {
            return tracing::info!("the server is stopping already");
        }
        tracing::info!("the server stops, because {why}");
        self.core.stage = Stage::Finishing;
        self.tell_wait = Some(now.plus(TELL_EVERY));
        self.frontends.stop_listening(&mut self.core);
        self.core.accept_again = None;
    }

    /// Goes towards the end; `true` when it is reached.
    pub(super) fn advance_stage(&mut self, now: Instant) -> bool {
        if self.core.stage == Stage::Finishing && self.core.requests.is_empty() && self.frontends.is_idle() {
            self.core.engine.stop(now);
            self.core.stage = Stage::Stopping;
            self.pump(now);
        }
        if self.core.stage == Stage::Stopping && self.core.engine.phase() == Phase::Stopped {
            self.core.stage = Stage::Goodbye(now.plus(engine_span(self.core.limits.goodbye_max)));
            self.note_dirty(WhileServed::No);
        }
        let Stage::Goodbye(until) = self.core.stage else { return false };
        if until > now && !self.frontends.is_quiet() {
            return false;
        }
        self.frontends.close(&mut self.core);
        let volumes = &self.core.volumes;
        self.core.complaints.tell_all_held_back(now, |volume| &volumes[volume].info.name);
        tracing::info!(
            "the server has stopped; everything acknowledged is on the cache device or the origin"
        );
        true
    }

    /// What a stop waits for, every ten seconds.
    pub(super) fn poll_wait(&mut self, now: Instant) -> Option<String> {
        self.tell_wait.filter(|due| *due <= now)?;
        self.tell_wait = Some(now.plus(TELL_EVERY));
        let requests = self.core.requests.len();
        let operations = self.core.driver.in_flight();
        Some(format!(
            "{requests} requests of clients and virtual machines, and {operations} operations of the cache device and \
             the origins"
        ))
    }
}
