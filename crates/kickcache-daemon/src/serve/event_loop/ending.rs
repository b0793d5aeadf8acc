//! The way to a clean stop, and what the log says while it takes its time.

use std::os::fd::AsFd;

use kickcache_engine::engine::Phase;
use kickcache_engine::time::{Duration, Instant};

use super::watched::Watched;
use super::{EventLoop, Stage, WhileServed, engine_span};
use crate::serve::cache_engine::CacheEngine;

/// How often the log says what a stop waits for.
const TELL_EVERY: Duration = Duration::from_millis(10_000);

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn begin_stop(&mut self, now: Instant, why: &str) {
        if self.stage != Stage::Serving {
            return tracing::info!("the server is stopping already");
        }
        tracing::info!("the server stops, because {why}");
        self.stage = Stage::Finishing;
        self.tell_wait = Some(now.plus(TELL_EVERY));
        for (index, served) in self.listeners.iter().enumerate() {
            let key = Watched::Listener(u16::try_from(index).expect("few listeners")).key();
            self.driver.unwatch(served.listener.as_fd(), key);
        }
        self.listeners.clear();
        self.stop_listening_to_guests();
        self.accept_again = None;
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.handshaking {
                self.close(index);
                continue;
            }
            connection.abandon_input(self.driver.buffers());
            self.clients.touch(index);
        }
    }

    /// Goes towards the end; `true` when it is reached.
    pub(super) fn advance_stage(&mut self, now: Instant) -> bool {
        if self.stage == Stage::Finishing && self.requests.is_empty() && self.guests.is_empty() {
            self.engine.stop(now);
            self.stage = Stage::Stopping;
            self.pump(now);
        }
        if self.stage == Stage::Stopping && self.engine.phase() == Phase::Stopped {
            self.stage = Stage::Goodbye(now.plus(engine_span(self.limits.goodbye_max)));
            self.note_dirty(WhileServed::No);
        }
        let Stage::Goodbye(until) = self.stage else { return false };
        if until > now && !self.clients.all_quiet() {
            return false;
        }
        for index in self.clients.indices() {
            self.close(index);
        }
        self.tell_all_held_back(now);
        tracing::info!(
            "the server has stopped; everything acknowledged is on the cache device or the origin"
        );
        true
    }

    /// What a stop waits for, every ten seconds.
    pub(super) fn poll_wait(&mut self, now: Instant) -> Option<String> {
        self.tell_wait.filter(|due| *due <= now)?;
        self.tell_wait = Some(now.plus(TELL_EVERY));
        let requests = self.requests.len();
        let of_guests = self.guests.in_flight();
        let operations = self.driver.in_flight();
        Some(format!(
            "{requests} requests of clients, {of_guests} of virtual machines, and {operations} operations of the cache \
             device and the origins"
        ))
    }
}
