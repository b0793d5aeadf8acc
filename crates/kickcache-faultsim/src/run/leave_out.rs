//! A cache device is left out while an engine serves, and another one put into use: the steps of the operator and of
//! the daemon.

use kickcache_engine::config::Service;
use kickcache_engine::engine::Phase;
use kickcache_engine::stats::{CacheHealth, Record, VolumeStatus};

use crate::device::SimulatedDevice;
use crate::host::Host;
use crate::oracle::Crash;
use crate::plan::Abandoned;
use crate::run::life::is_drained;
use crate::run::{End, Simulation};
use crate::subject::Subject;

/// How often, in 1/1000, a life that ends in a crash does so right after the leave-out.
const CRASH_PERMILLE: u64 = 300;
/// How often, in 1/1000, a leave-out with dirty blocks is scheduled when clients begin to work, in plans that have one.
const ABANDONED_PERMILLE: u64 = 800;
const EVENTS: u64 = 24;

impl Simulation {
    pub(super) fn draw_leaving(&mut self) -> bool {
        self.plan.leaving_permille > 0 && self.random.chance(self.plan.leaving_permille)
    }

    pub(super) fn schedule_abandonment(&mut self) {
        let is_abandoned = self.plan.abandoned.is_some() && self.random.chance(ABANDONED_PERMILLE);
        self.abandoned_at = is_abandoned.then(|| 1 + self.random.below(self.budget.max(1)));
    }

    pub(super) fn abandon_cache<E: Subject>(&mut self, host: &mut Host<E>) {
        let is_due = self.abandoned_at.is_some_and(|at| self.budget < at);
        let is_well = host.engine.phase() == Phase::Running && host.engine.health() == CacheHealth::Good;
        if is_due && is_well && self.is_moment_to_abandon(host) {
            self.abandoned_at = None;
            self.note(|| "the cache device is left out at once".to_owned());
            host.engine.leave_out(self.now);
        }
    }

    fn is_moment_to_abandon<E: Subject>(&self, host: &Host<E>) -> bool {
        let is_unflushed = |volume: &VolumeStatus| volume.dirty_blocks == 0 && volume.unflushed_blocks > 0;
        self.plan.abandoned != Some(Abandoned::Unflushed)
            || host.engine.status().volumes.iter().any(is_unflushed)
    }

    /// Drains and leaves out the cache device between stretches of work, and puts another one into use. If
    /// the device fails or is not drained, the life ends without a leave-out.
    pub(super) fn work_and_leave_out<E: Subject>(
        &mut self,
        mut host: Host<E>,
        end: End,
    ) -> Result<(), String> {
        self.work_in_peace(&mut host)?;
        if host.engine.health() != CacheHealth::Good {
            return self.end_life(host, end);
        }
        self.drain(&mut host)?;
        if !is_drained(&host.engine.status()) {
            return self.end_life(host, end);
        }
        self.note(|| "the cache device is left out".to_owned());
        host.engine.leave_out(self.now);
        self.pump(&mut host)?;
        if let Some(crash) = self.draw_crash(end, CRASH_PERMILLE) {
            return self.crash_soon(host, crash);
        }
        self.await_peace(&mut host, |host: &Host<E>| {
            matches!(host.engine.record(), Some(Record::OnDevice | Record::WithHost | Record::ByOrder))
        })?;
        self.summary.left_out_caches += 1;
        let mut blank = SimulatedDevice::new(self.plan.cache_size);
        E::format(&mut blank, [9; 16], &self.plan.origin_sizes)?;
        self.aside = Some(std::mem::replace(&mut self.devices.cache, blank));
        let mut host = self.give_way(&host, Service::Out)?;
        if let Some(crash) = self.draw_crash(end, 2 * CRASH_PERMILLE) {
            self.start_clients::<E>(self.plan.requests);
            return self.crash_soon(host, crash);
        }
        self.work_in_peace(&mut host)?;
        self.await_peace(&mut host, |_| true)?;
        self.note(|| "another cache device is put into use".to_owned());
        self.summary.taken_in_caches += 1;
        // The old cache device is never used again.
        (self.aside, self.devices.noted) = (None, None);
        self.devices.cache = SimulatedDevice::new(self.plan.cache_size);
        self.format::<E>()?;
        let host = self.give_way(&host, Service::In)?;
        self.end_life(host, end)
    }

    /// The crash that ends this life at this step, with this probability in 1/1000.
    pub(super) fn draw_crash(&mut self, end: End, permille: u64) -> Option<Crash> {
        match end {
            End::Crash(crash) if self.random.chance(permille) => Some(crash),
            End::Crash(_) | End::Stop => None,
        }
    }

    pub(super) fn work_in_peace<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let requests = self.random.within(1, self.plan.requests);
        self.start_clients::<E>(requests);
        self.run(host, None, |life, _| life.budget == 0)?;
        self.finish_requests(host)
    }

    /// Runs until no submission is in flight and `is_done` holds.
    pub(super) fn await_peace<E: Subject>(
        &mut self,
        host: &mut Host<E>,
        is_done: impl Fn(&Host<E>) -> bool,
    ) -> Result<(), String> {
        self.run(host, None, |_, host| host.in_flight_count() == 0 && is_done(host))
            .map(drop)
            .map_err(|error| format!("an engine that is replaced: {error}"))
    }

    pub(super) fn crash_soon<E: Subject>(&mut self, mut host: Host<E>, crash: Crash) -> Result<(), String> {
        let events = self.random.below(EVENTS) * self.random.within(1, 20);
        self.run(&mut host, Some(events), |life, host| life.is_idle(host))?;
        self.crash(host, crash)
    }

    pub(super) fn end_life<E: Subject>(&mut self, host: Host<E>, end: End) -> Result<(), String> {
        match end {
            End::Stop => self.work_and_stop(host),
            End::Crash(crash) => self.work_and_crash(host, crash),
        }
    }

    /// Replaces an engine without submissions in flight by another engine. The origins keep their data, flushed or not.
    fn give_way<E: Subject>(&mut self, before: &Host<E>, service: Service) -> Result<Host<E>, String> {
        self.summary.add_status(&before.engine.status());
        let mut host = self.open::<E>(service)?;
        self.faulty = false;
        let phase = self.recover(&mut host)?;
        self.faulty = self.plan.faults.any();
        match phase {
            Phase::Running => Ok(host),
            phase => Err(format!("an engine that is to take over is {phase:?}")),
        }
    }
}
