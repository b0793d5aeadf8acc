//! A life of an engine: recovery, work, and its end by a stop or a crash.

use kickcache_engine::engine::Phase;
use kickcache_engine::request::Operation;
use kickcache_engine::stats::{CacheHealth, Status};
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::world::host::{Devices, Host};
use crate::world::oracle::Crash;
use crate::world::queue::Event;
use crate::world::run::{End, World, volume_id};
use crate::world::subject::Subject;
use crate::world::workload::Ask;

impl World {
    pub(super) fn draw_end(&mut self) -> End {
        let ticket = self.random.below(1_000);
        let ends = self.plan.ends;
        if ticket < ends.power_cut {
            End::Crash(Crash::PowerCut)
        } else if ticket < ends.power_cut + ends.kill {
            End::Crash(Crash::Kill)
        } else {
            End::Stop
        }
    }

    /// One life: recovery, work, end.
    pub(super) fn live<E: Subject>(&mut self, end: End) -> Result<(), String> {
        let mut host = self.open::<E>()?;
        if let End::Crash(crash) = end
            && self.random.chance(self.plan.ends.during_recovery)
        {
            let events = self.random.below(60);
            let alive = self.run(&mut host, Some(events), |_, host| host.engine.phase() == Phase::Running)?;
            if !alive {
                self.summary.recovery_crashes += 1;
                return self.crash(host, crash);
            }
        }
        self.recover(&mut host)?;
        if self.random.chance(self.plan.ends.verify) {
            self.verify(&mut host)?;
        }
        match end {
            End::Stop => self.work_and_stop(host),
            End::Crash(crash) => self.work_and_crash(host, crash),
        }
    }

    fn recover<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        // A device that fails while the log is read is refused, and nothing is lost by it.
        self.faulty = false;
        self.run(host, None, |_, host| host.engine.phase() != Phase::Recovering)
            .map_err(|error| format!("recovery: {error}"))?;
        self.faulty = self.plan.faults.any();
        let phase = host.engine.phase();
        if phase != Phase::Running {
            return Err(format!("after recovery the engine is {phase:?}"));
        }
        host.engine.check();
        self.note(|| "recovered".to_owned());
        Ok(())
    }

    /// Reads everything that was ever touched.
    fn verify<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.note(|| "verify".to_owned());
        let length_max = 4096 << self.random.below(7);
        self.verify = (0..self.devices.origins.len())
            .flat_map(|number| {
                let volume = volume_id(number);
                self.oracle.touched(volume, length_max).into_iter().map(move |extent| (volume, extent))
            })
            .collect();
        for _ in 0..8 {
            self.issue_verify(host);
        }
        self.run(host, None, |world, _| world.outstanding.is_empty() && world.verify.is_empty())
            .map_err(|error| format!("verify: {error}"))?;
        Ok(())
    }

    pub(super) fn issue_verify<E: Subject>(&mut self, host: &mut Host<E>) {
        if let Some((volume, extent)) = self.verify.pop() {
            self.issue(host, Ask { volume, operation: Operation::Read, extent }, None);
        }
    }

    fn start_clients(&mut self, requests: u64) {
        self.budget = requests;
        for client in 0..self.clients.len() {
            let at = self.now.plus(self.clients[client].pause());
            self.queue.push(at, Event::Client(client));
        }
        if self.plan.mode_changes || self.plan.drains {
            self.queue.push(self.now.plus(Duration::from_millis(5)), Event::Operator);
        }
    }

    fn work_and_crash<E: Subject>(&mut self, mut host: Host<E>, crash: Crash) -> Result<(), String> {
        let requests = self.random.within(1, self.plan.requests);
        self.start_clients(requests);
        self.run(&mut host, None, |world, _| world.budget == 0)?;
        let events = self.random.below(200);
        self.run(&mut host, Some(events), |world, _| world.outstanding.is_empty())?;
        self.crash(host, crash)
    }

    fn work_and_stop<E: Subject>(&mut self, mut host: Host<E>) -> Result<(), String> {
        self.start_clients(self.plan.requests);
        self.run(&mut host, None, |world, _| world.budget == 0)?;
        if self.random.chance(700) {
            self.finish_requests(&mut host)?;
        }
        self.stop(host)
    }

    fn finish_requests<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.run(host, None, |world, _| world.outstanding.is_empty())
            .map_err(|error| format!("requests at the end: {error}"))?;
        Ok(())
    }

    fn stop<E: Subject>(&mut self, mut host: Host<E>) -> Result<(), String> {
        self.note(|| "stop".to_owned());
        self.budget = 0;
        host.engine.stop(self.now);
        self.pump(&mut host)?;
        self.run(&mut host, None, |_, host| host.engine.phase() == Phase::Stopped)
            .map_err(|error| format!("stop: {error}"))?;
        if !self.outstanding.is_empty() || host.in_flight_count() > 0 {
            let count = self.outstanding.len();
            return Err(format!("stopped with {count} requests and in flight: {}", host.in_flight_text()));
        }
        let status = host.engine.status();
        self.is_cache_lost = status.health != CacheHealth::Good;
        self.summary.add_status(&status);
        self.oracle.stopped();
        if self.random.chance(500) {
            self.cut_power();
        }
        Ok(())
    }

    fn cut_power(&mut self) {
        self.note(|| "power cut".to_owned());
        self.summary.power_cuts += 1;
        let Devices { cache, origins } = &mut self.devices;
        for device in std::iter::once(cache).chain(origins) {
            device.cut_power(self.plan.atomic_unit, &mut self.random);
        }
        self.oracle.crash(Crash::PowerCut);
    }

    fn crash<E: Subject>(&mut self, host: Host<E>, crash: Crash) -> Result<(), String> {
        self.note(|| format!("crash: {crash:?}"));
        self.summary.add_status(&host.engine.status());
        host.kill(&mut self.devices);
        self.outstanding.clear();
        self.verify.clear();
        self.budget = 0;
        if crash == Crash::Kill {
            self.summary.kills += 1;
            self.oracle.crash(Crash::Kill);
        }
        if crash == Crash::PowerCut || self.random.chance(self.plan.ends.kill_then_cut) {
            self.cut_power();
        }
        Ok(())
    }

    /// The last life: work without a crash, then without faults: everything ends, everything drains, and the
    /// origins hold what plain disks would.
    pub(super) fn last_life<E: Subject>(&mut self) -> Result<(), String> {
        let mut host = self.open::<E>()?;
        self.recover(&mut host)?;
        self.verify(&mut host)?;
        self.start_clients(self.plan.requests);
        self.run(&mut host, None, |world, _| world.budget == 0)?;
        self.finish_requests(&mut host)?;
        self.faulty = false;
        self.verify(&mut host)?;
        host.engine.check();
        let excused = self.plan.faults.any() && self.is_damaged(&host);
        self.drain(&mut host, excused)?;
        self.stop(host)?;
        if excused {
            return Ok(());
        }
        self.cut_power();
        for (number, device) in self.devices.origins.iter().enumerate() {
            let all = ByteExtent { start: 0, length: device.size() };
            self.oracle
                .judge_origin(volume_id(number), device.bytes(all))
                .map_err(|error| format!("origin after the end: {error}"))?;
        }
        Ok(())
    }

    /// Whether faults have cost something that no engine can bring back.
    fn is_damaged<E: Subject>(&self, host: &Host<E>) -> bool {
        let status = host.engine.status();
        status.health != CacheHealth::Good
            || status.volumes.iter().any(|volume| volume.counters.damaged_blocks > 0)
    }

    fn drain<E: Subject>(&mut self, host: &mut Host<E>, excused: bool) -> Result<(), String> {
        self.note(|| "drain".to_owned());
        for settings in &self.volumes {
            host.engine.drain(self.now, settings.volume);
        }
        self.pump(host)?;
        let drained = |status: &Status| {
            status.volumes.iter().all(|volume| volume.dirty_blocks == 0 && volume.unflushed_blocks == 0)
        };
        let result = self.run(host, None, |_, host| drained(&host.engine.status()));
        match result {
            Ok(_) => Ok(()),
            Err(_) if excused => Ok(()),
            Err(error) => Err(format!("drain: {error}")),
        }
    }
}
