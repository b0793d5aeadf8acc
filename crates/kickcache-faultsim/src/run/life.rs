//! A life of an engine: recovery, work, and its end by a stop or a crash.

use kickcache_engine::config::{Mode, SequentialCutoff, VolumeSettings};
use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::request::Operation;
use kickcache_engine::stats::{CacheHealth, Status, VolumeStatus};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;

use crate::device::{Loss, SimulatedDevice};
use crate::host::Host;
use crate::index::index;
use crate::oracle::Crash;
use crate::plan::faults::SealedRates;
use crate::queue::Event;
use crate::run::{End, PATIENCE, Simulation, volume_id};
use crate::sectors::may_hide_log;
use crate::subject::Subject;
use crate::workload::Ask;

/// After this simulated time, a drain may end with dirty blocks left if faults may have caused a loss.
const PATIENCE_EXCUSED: Duration = Duration::from_millis(5_000);

/// All data that recovery found is read and durable within about this many events.
const VERIFY_EVENTS: u64 = 60;

impl Simulation {
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

    pub(super) fn live<E: Subject>(&mut self, end: End) -> Result<(), String> {
        self.draw_served();
        if let End::Crash(crash) = end
            && self.random.chance(self.plan.ends.during_recovery)
        {
            let service = self.prepare_cache::<E>()?;
            let mut host = self.open::<E>(service)?;
            let events = self.random.below(60);
            let alive =
                self.run(&mut host, Some(events), |_, host| host.engine.phase() != Phase::Recovering)?;
            self.summary.recovery_crashes += u64::from(!alive);
            return self.crash(host, crash);
        }
        let mut host = self.start::<E>()?;
        if let End::Crash(crash) = end
            && self.plan.ends.during_verify > 0
            && self.random.chance(self.plan.ends.during_verify)
        {
            let events = self.random.below(VERIFY_EVENTS);
            self.verify(&mut host, Some(events))?;
            return self.crash(host, crash);
        }
        if self.random.chance(self.plan.ends.verify) {
            self.verify(&mut host, None)?;
        }
        if E::GROWS && self.draw_leaving() {
            return self.work_and_leave_out(host, end);
        }
        if E::GROWS && self.draw_parting() {
            return self.work_and_part(host, end);
        }
        self.end_life(host, end)
    }

    /// Chooses the volumes that are served in the next life, one at least.
    fn draw_served(&mut self) {
        let keep = self.clients[0].volume();
        for number in 0..self.served.len() {
            let is_absent = self.random.chance(self.plan.absent_permille);
            self.served[number] = !is_absent || volume_id(number) == keep;
        }
    }

    /// Whether dirty blocks of unserved volumes fill so much of the log that other volumes could wait for them.
    fn is_crowded<E: Subject>(&self, host: &Host<E>) -> bool {
        let absent = (0..self.served.len()).filter(|number| !self.served[*number]);
        let dirty: usize = absent.map(|number| host.engine.dirty_blocks(volume_id(number)).len()).sum();
        dirty as u64 > self.plan.cache_size / BLOCK_SIZE / 16
    }

    fn start<E: Subject>(&mut self) -> Result<Host<E>, String> {
        for attempt in 0.. {
            let service = self.prepare_cache::<E>()?;
            let mut host = self.open::<E>(service)?;
            self.faulty = self.plan.faults.in_recovery && attempt < 3;
            let phase = self.recover(&mut host)?;
            self.faulty = self.plan.faults.any();
            match phase {
                Phase::Running if !self.is_crowded(&host) => {
                    self.has_rotted_header = false;
                    return Ok(host);
                }
                Phase::Running => {
                    self.served.fill(true);
                    host.kill(&mut self.devices).into_iter().for_each(|volume| self.oracle.doom(volume));
                }
                Phase::Failed(_) if self.plan.faults.in_recovery && attempt < 3 => {
                    self.summary.failed_recoveries += 1;
                    host.kill(&mut self.devices).into_iter().for_each(|volume| self.oracle.doom(volume));
                }
                Phase::Failed(Error::Rotted { .. }) if self.has_rotted_header || self.has_rotted_journal => {
                    self.has_rotted_header = false;
                    (0..self.volumes.len()).for_each(|number| self.oracle.distrust(volume_id(number)));
                    self.give_up_cache(host)?;
                }
                Phase::Failed(Error::Unreadable { .. }) if may_hide_log(&self.devices.cache) => {
                    self.summary.refused_logs += 1;
                    (0..self.volumes.len()).for_each(|number| self.oracle.distrust(volume_id(number)));
                    self.give_up_cache(host)?;
                }
                Phase::Failed(_) if self.has_lost_by_lies() => self.give_up_cache(host)?,
                phase => return Err(format!("after recovery the engine is {phase:?}")),
            }
        }
        Err("recovery never ends".to_owned())
    }

    /// Whether lies of the cache device have lost data of all volumes, so that recovery may refuse its log.
    fn has_lost_by_lies(&self) -> bool {
        let all = 0..self.plan.origin_sizes.len();
        self.plan.faults.cache.lie > 0 && all.map(volume_id).all(|volume| self.oracle.is_distrusted(volume))
    }

    fn give_up_cache<E: Subject>(&mut self, host: Host<E>) -> Result<(), String> {
        self.note(|| "a new cache device: the log was refused".to_owned());
        self.summary.failed_recoveries += 1;
        host.kill(&mut self.devices);
        self.format_another::<E>()
    }

    pub(super) fn recover<E: Subject>(&mut self, host: &mut Host<E>) -> Result<Phase, String> {
        self.run(host, None, |_, host| host.engine.phase() != Phase::Recovering)
            .map_err(|error| format!("recovery: {error}"))?;
        self.is_running = true;
        host.engine.check();
        self.note(|| "recovered".to_owned());
        if host.engine.phase() == Phase::Running && !self.plan.faults.may_deceive() {
            self.compare_clean(host)?;
        }
        if host.engine.phase() == Phase::Running {
            self.check_dirty(host)?;
        }
        Ok(host.engine.phase())
    }

    /// Compares the clean blocks of the log with the origins, for the served volumes that have lost no data.
    pub(super) fn compare_clean<E: Subject>(&self, host: &Host<E>) -> Result<(), String> {
        for (volume, block, checksum) in host.engine.clean_blocks() {
            let number = usize::from(volume.get());
            let origin = &self.devices.origins[number].blocks()[index(block.get())];
            if self.served[number] && !self.oracle.is_distrusted(volume) && origin.checksum() != checksum {
                let (volume, at) = (volume.get(), block.byte_offset());
                return Err(format!("volume {volume} byte {at:#x}: a clean block differs from the origin"));
            }
        }
        Ok(())
    }

    fn verify<E: Subject>(&mut self, host: &mut Host<E>, events: Option<u64>) -> Result<(), String> {
        self.note(|| "verify".to_owned());
        let length_max = 4096 << self.random.below(7);
        self.verify = (0..self.devices.origins.len())
            .filter(|number| self.served[*number])
            .flat_map(|number| {
                let volume = volume_id(number);
                self.oracle.touched(volume, length_max).into_iter().map(move |extent| (volume, extent))
            })
            .collect();
        for _ in 0..8 {
            self.issue_verify(host);
        }
        self.run(host, events, |life, _| life.outstanding.is_empty() && life.verify.is_empty())
            .map_err(|error| format!("verify: {error}"))?;
        Ok(())
    }

    pub(super) fn issue_verify<E: Subject>(&mut self, host: &mut Host<E>) {
        if let Some((volume, extent)) = self.verify.pop() {
            self.issue(host, Ask { volume, operation: Operation::Read, extent }, None);
        }
    }

    pub(super) fn start_clients<E: Subject>(&mut self, requests: u64) {
        self.budget = requests;
        for client in 0..self.clients.len() {
            if !self.is_served(self.clients[client].volume()) {
                continue;
            }
            let at = self.now.plus(self.clients[client].pause());
            self.queue.push(at, Event::Client(client));
        }
        let restarts = |number: &usize| E::OUTLIVES_RESTARTS && self.served[*number];
        let served: Vec<_> = (0..self.served.len()).filter(restarts).collect();
        served.into_iter().for_each(|number| self.schedule_restart(volume_id(number)));
        if E::GROWS {
            self.schedule_growth();
            self.schedule_replacement();
            self.schedule_abandonment();
        }
        if self.plan.mode_changes || self.plan.setting_changes || self.plan.drains {
            self.queue.push(self.now.plus(Duration::from_millis(5)), Event::Operator);
        }
    }

    pub(super) fn work_and_stop<E: Subject>(&mut self, mut host: Host<E>) -> Result<(), String> {
        self.start_clients::<E>(self.plan.requests);
        self.run(&mut host, None, |life, _| life.budget == 0)?;
        if self.random.chance(700) {
            self.finish_requests(&mut host)?;
        }
        self.stop(host)
    }

    pub(super) fn finish_requests<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.run(host, None, |life, _| life.outstanding.is_empty())
            .map_err(|error| format!("requests at the end: {error}"))?;
        Ok(())
    }

    fn stop<E: Subject>(&mut self, mut host: Host<E>) -> Result<(), String> {
        self.budget = 0;
        self.end_growth(&mut host)?;
        self.end_replacement(&mut host)?;
        self.note(|| "stop".to_owned());
        host.engine.stop(self.now);
        self.pump(&mut host)?;
        self.run(&mut host, None, |_, host| host.engine.phase() == Phase::Stopped)
            .map_err(|error| format!("stop: {error}"))?;
        if !self.outstanding.is_empty() || host.in_flight_count() > 0 {
            let count = self.outstanding.len();
            return Err(format!("stopped with {count} requests and in flight: {}", host.in_flight_text()));
        }
        self.check_found(&host.engine.status())?;
        self.summary.add_status(&host.engine.status());
        host.engine.note_journal(&mut self.devices.cache)?;
        if !self.plan.faults.any() {
            let served = (0..self.served.len()).filter(|number| self.served[*number]);
            served.for_each(|number| self.oracle.stopped(volume_id(number)));
        }
        // If an origin drops unflushed writes when its flush fails, a stop that could not flush may have lost the only
        // copy, and the next life has no record of the loss.
        if self.random.chance(500) || self.plan.faults.origin.forgets {
            self.cut_power();
        }
        self.examine()?;
        self.take_back_cache();
        self.damage_stopped_cache();
        Ok(())
    }

    pub(super) fn format_another<E: Subject>(&mut self) -> Result<(), String> {
        self.summary.replaced_caches += 1;
        self.devices.noted = None;
        self.devices.cache.make_all_durable();
        self.devices.cache.mend();
        self.has_rotted_journal = false;
        self.format::<E>()
    }

    /// Whether a read may have returned data that only the origin has, without a dirty block in the log.
    fn has_reads_past_the_log(&self) -> bool {
        let weights = &self.plan.weights;
        let is_logged = |settings: &VolumeSettings| {
            settings.mode == Mode::WriteBack && settings.sequential_cutoff == SequentialCutoff::Off
        };
        if self.plan.reads_nothing() {
            return false;
        }
        self.plan.mode_changes
            || weights.discard + weights.zeroes > 0
            || !self.plan.volumes.iter().all(is_logged)
    }

    fn cut_power(&mut self) {
        self.take_back_cache();
        self.note(|| "power cut".to_owned());
        self.summary.power_cuts += 1;
        let unit = self.plan.atomic_unit;
        if self.has_reads_past_the_log() {
            self.devices.origins.iter_mut().for_each(SimulatedDevice::blame_abandoned);
        }
        let cache_loss = self.devices.cache.cut_power(unit, &mut self.random);
        for other in self.devices.successor.iter_mut().chain(&mut self.retired) {
            other.cut_power(unit, &mut self.random);
        }
        if let Some(redo) = &mut self.redo {
            redo.instants.cut_power(self.oracle.book());
        }
        if let Some(journal) = &mut self.devices.redo {
            journal.cut_power(unit, &mut self.random);
        }
        let losses: Vec<Loss> =
            self.devices.origins.iter_mut().map(|origin| origin.cut_power(unit, &mut self.random)).collect();
        self.oracle.crash(Crash::PowerCut);
        for (number, loss) in losses.into_iter().enumerate() {
            // The volume may have lost data that counts as durable.
            if loss == Loss::Lied || cache_loss == Loss::Lied {
                self.oracle.distrust(volume_id(number));
            }
        }
    }

    pub(super) fn crash<E: Subject>(&mut self, host: Host<E>, crash: Crash) -> Result<(), String> {
        self.note(|| format!("crash: {crash:?}"));
        self.check_found(&host.engine.status())?;
        self.summary.add_status(&host.engine.status());
        host.kill(&mut self.devices).into_iter().for_each(|volume| self.oracle.doom(volume));
        self.outstanding.clear();
        self.verify.clear();
        self.budget = 0;
        if crash == Crash::Kill {
            self.summary.kills += 1;
            self.oracle.crash(Crash::Kill);
        }
        if E::OUTLIVES_RESTARTS && self.plan.restart_after.is_some() && self.random.chance(500) {
            let unit = self.plan.atomic_unit;
            self.devices.origins.iter_mut().for_each(|origin| _ = origin.cut_power(unit, &mut self.random));
        }
        if crash == Crash::PowerCut || self.random.chance(self.plan.ends.kill_then_cut) {
            self.cut_power();
        }
        self.examine()?;
        self.take_back_cache();
        self.end_interrupted_replacement()?;
        self.damage_cache();
        Ok(())
    }

    /// The last life: work without a crash, then without faults.
    pub(super) fn last_life<E: Subject>(&mut self) -> Result<(), String> {
        self.served.fill(true);
        let mut host = self.start::<E>()?;
        self.verify(&mut host, None)?;
        self.start_clients::<E>(self.plan.requests);
        self.run(&mut host, None, |life, _| life.budget == 0)?;
        self.finish_requests(&mut host)?;
        self.faulty = false;
        self.verify(&mut host, None)?;
        host.engine.check();
        self.await_drains(&mut host)?;
        self.drain(&mut host)?;
        self.check_bad_spots(&mut host)?;
        let excused = self.is_excused(&host);
        // Out of service, the engine empties no segment.
        if !excused && host.engine.health() == CacheHealth::Good {
            self.check_rest(&mut host)?;
        }
        self.stop(host)?;
        if excused {
            return Ok(());
        }
        self.cut_power();
        for (number, device) in self.devices.origins.iter().enumerate() {
            self.oracle
                .judge_origin(volume_id(number), device.blocks())
                .map_err(|error| format!("origin after the end: {error}"))?;
        }
        Ok(())
    }

    /// Whether faults may have caused a loss that no engine can prevent.
    fn is_damaged<E: Subject>(&self, host: &Host<E>) -> bool {
        let status = host.engine.status();
        let faults = &self.plan.faults;
        let SealedRates { old, new } = faults.sealed;
        let flushes = faults.cache.flush + faults.successor.flush + old.flush + new.flush;
        let may_fail_flushes = flushes > 0 || faults.outage_permille > 0 || faults.early_permille > 0;
        let is_out = status.health != CacheHealth::Good;
        // Volumes that are written back in cuts keep their dirty blocks on a device out of service.
        (is_out && (may_fail_flushes || self.plan.point_in_time.is_some()))
            || status.volumes.iter().any(|volume| volume.counters.damaged_blocks > 0)
    }

    /// Whether dirty blocks may stay at the end, because faults may have caused a loss.
    fn is_excused<E: Subject>(&self, host: &Host<E>) -> bool {
        self.plan.faults.any() && self.is_damaged(host)
    }

    pub(super) fn drain<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        self.note(|| "drain".to_owned());
        for settings in &self.volumes {
            debug_assert!(self.served.iter().all(|served| *served), "the last life serves all volumes");
            host.engine.drain(self.now, settings.volume);
            self.drained.note_asked(settings.volume);
        }
        self.pump(host)?;
        let (deadline, early) = (self.now.plus(PATIENCE), self.now.plus(PATIENCE_EXCUSED));
        loop {
            let is_idle = self.run(host, Some(200), |life, host| life.is_idle(host))?;
            let has_rest =
                !self.plan.faults.has_only_bad_spots() || is_drained_but_for_damage(&host.engine.status());
            let may_stay = self.is_excused(host) && has_rest && (is_idle || self.now > early);
            if is_drained(&host.engine.status()) || may_stay {
                return Ok(());
            }
            if is_idle || self.now > deadline {
                return Err(self.stuck("it is not drained", host));
            }
        }
    }

    pub(super) fn is_idle<E: Subject>(&self, host: &Host<E>) -> bool {
        self.queue.next().is_none() && host.engine.poll_timeout().is_none()
    }
}

fn is_drained_but_for_damage(status: &Status) -> bool {
    status.volumes.iter().all(|volume| volume.dirty_blocks + volume.unflushed_blocks == volume.damaged_blocks)
}

pub(super) fn is_drained(status: &Status) -> bool {
    let has_all = |volume: &VolumeStatus| volume.dirty_blocks + volume.unflushed_blocks == 0;
    status.volumes.iter().all(|volume| has_all(volume) && !volume.is_incomplete)
}
