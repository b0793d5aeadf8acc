//! Crashes during the clients' work: at any time, or soon after a submission or step that the plan aims at.

use kickcache_engine::time::Duration;

use crate::host::Host;
use crate::oracle::Crash;
use crate::plan::aim::Aim;
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

/// Crashes during the clients' work that wait for the plan's kind of submission or step of replacement, if any, in 1/1000.
const AIMED_PERMILLE: u64 = 900;
/// A submission reaches the device and is durable within about this many events.
const AIMED_EVENTS: u64 = 24;
/// The replacement of a small device has about this many steps.
const REPLACEMENT_STEPS: u64 = 48;
/// A drain among requests of clients takes less than this many events, and less than this time.
const DRAIN_EVENTS: u64 = 4_000;
const DRAIN_MAX: Duration = Duration::from_millis(20_000);

impl Simulation {
    pub(super) fn work_and_crash<E: Subject>(
        &mut self,
        mut host: Host<E>,
        crash: Crash,
    ) -> Result<(), String> {
        let requests = self.random.within(1, self.plan.requests);
        if self.plan.replacement.is_some() && self.random.chance(AIMED_PERMILLE) {
            return self.work_and_crash_replacing(host, crash);
        }
        if self.plan.ends.aim != Aim::Anything && self.random.chance(AIMED_PERMILLE) {
            return self.work_and_crash_aiming(host, crash, requests);
        }
        self.start_clients::<E>(requests);
        self.run(&mut host, None, |life, _| life.budget == 0)?;
        let events = self.random.below(200);
        self.run(&mut host, Some(events), |life, _| life.outstanding.is_empty())?;
        self.crash(host, crash)
    }

    /// The crash happens after some steps of a replacement, or at the end of the work.
    fn work_and_crash_replacing<E: Subject>(
        &mut self,
        mut host: Host<E>,
        crash: Crash,
    ) -> Result<(), String> {
        self.start_clients::<E>(self.plan.requests);
        let steps = self.replacement_steps + self.random.within(1, REPLACEMENT_STEPS);
        self.run(&mut host, None, |life, _| life.budget == 0 || life.replacement_steps >= steps)?;
        let events = self.random.below(AIMED_EVENTS);
        self.run(&mut host, Some(events), |life, _| life.outstanding.is_empty())?;
        self.crash(host, crash)
    }

    /// The crash happens soon after a submission of the kind that the plan aims at, or at the end of the work.
    fn work_and_crash_aiming<E: Subject>(
        &mut self,
        mut host: Host<E>,
        crash: Crash,
        requests: u64,
    ) -> Result<(), String> {
        self.start_clients::<E>(self.plan.requests);
        if self.plan.ends.aim == Aim::Complete {
            return self.work_and_crash_once_complete(host, crash);
        }
        let may_be_first = match self.plan.ends.aim {
            Aim::Records | Aim::Forgotten | Aim::OriginFlush | Aim::Failure | Aim::Drained => false,
            Aim::Marks => self.random.chance(500),
            Aim::Anything | Aim::Checkpoint | Aim::Complete => true,
        };
        if !may_be_first {
            // Not only the first such submissions: skip a random number of requests.
            let left = self.plan.requests - requests;
            self.run(&mut host, None, |life, _| life.budget <= left)?;
        }
        if self.plan.ends.aim == Aim::Drained {
            return self.drain_and_crash(host, crash);
        }
        // The first marks record all volumes as incomplete; later ones remove complete volumes.
        let skipped = if self.plan.ends.aim == Aim::Marks { self.random.below(6) } else { 0 };
        let before = host.aimed() + skipped;
        self.run(&mut host, None, |life, host| life.budget == 0 || host.aimed() > before)?;
        let events = match self.plan.ends.aim {
            Aim::Forgotten => self.random.below(2),
            // The effect of the failure may be durable later.
            Aim::Failure => self.random.below(AIMED_EVENTS) * self.random.within(1, 20),
            _ => self.random.below(AIMED_EVENTS),
        };
        self.run(&mut host, Some(events), |life, _| life.outstanding.is_empty())?;
        self.crash(host, crash)
    }

    /// The crash happens as soon as the record of a cache device out of service declares some number of volumes
    /// complete, or at the end of the work.
    fn work_and_crash_once_complete<E: Subject>(
        &mut self,
        mut host: Host<E>,
        crash: Crash,
    ) -> Result<(), String> {
        let least = 1 + self.random.index(self.volumes.len());
        self.run(&mut host, None, |life, host| {
            life.budget == 0 || life.recorded_complete::<E>(host).is_some_and(|count| count >= least)
        })?;
        let events = self.random.below(2);
        self.run(&mut host, Some(events), |life, _| life.outstanding.is_empty())?;
        self.crash(host, crash)
    }

    /// The operator drains all volumes while clients send requests, and the crash happens soon after the first drain
    /// that ends, or after some thousand events.
    fn drain_and_crash<E: Subject>(&mut self, mut host: Host<E>, crash: Crash) -> Result<(), String> {
        let before = self.drained.ended();
        for number in 0..self.volumes.len() {
            if self.served[number] {
                host.engine.drain(self.now, volume_id(number));
                self.drained.note_asked(volume_id(number));
            }
        }
        self.pump(&mut host)?;
        let late = self.now.plus(DRAIN_MAX);
        self.run(&mut host, Some(DRAIN_EVENTS), |life, host| {
            life.drained.ended() > before || life.is_idle(host) || life.now > late
        })?;
        let events = self.random.below(2) * self.random.below(AIMED_EVENTS);
        self.run(&mut host, Some(events), |life, host| life.is_idle(host))?;
        self.crash(host, crash)
    }
}
