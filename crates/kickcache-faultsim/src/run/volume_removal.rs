//! A volume is removed while others are served, and added again: the steps of the operator and of the daemon.

use kickcache_engine::request::Durability;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::{BLOCK_SIZE, Location, VolumeId};

use crate::host::Host;
use crate::oracle::Crash;
use crate::oracle::write_content::WriteContent;
use crate::payload::Payload;
use crate::plan::pick::draw_mode;
use crate::run::life::is_drained;
use crate::run::{End, Simulation, volume_id};
use crate::subject::Subject;

/// How often, in 1/1000, a life that ends in a crash does so at each step of the removal.
const CRASH_PERMILLE: u64 = 200;
/// Blocks that another program writes while a volume is removed, in 1/1000.
const OUTSIDE_PERMILLE: u64 = 300;
/// Fewer events than this happen between two steps.
const EVENTS: u64 = 12;

impl Simulation {
    pub(super) fn draw_parting(&mut self) -> bool {
        self.plan.parting_permille > 0 && self.random.chance(self.plan.parting_permille)
    }

    /// Removes a volume between stretches of work and adds it again: no dropped block may be restored. If the
    /// cache device is not in good health, the run has one volume, or dirty blocks are left, the life ends
    /// without a removal.
    pub(super) fn work_and_part<E: Subject>(&mut self, mut host: Host<E>, end: End) -> Result<(), String> {
        self.work_in_peace(&mut host)?;
        if host.engine.health() != CacheHealth::Good || self.volumes.len() < 2 {
            return self.end_life(host, end);
        }
        self.drain(&mut host)?;
        if !is_drained(&host.engine.status()) {
            // The daemon refuses to remove a volume with dirty blocks.
            return self.end_life(host, end);
        }
        let number = self.random.index(self.volumes.len());
        let volume = volume_id(number);
        self.note(|| format!("volume {number} is removed"));
        host.engine.flush_soon(self.now, volume);
        self.await_peace(&mut host, |host| host.engine.is_idle(volume))?;
        if let Some(crash) = self.forget(&mut host, volume, end)? {
            return self.crash_soon(host, crash);
        }
        host.engine.seal_forgotten(self.now, volume);
        self.pump(&mut host)?;
        if let Some(crash) = self.draw_crash(end, CRASH_PERMILLE) {
            return self.crash_soon(host, crash);
        }
        self.run(&mut host, None, |_, host| {
            host.engine.is_forgotten(volume) && host.engine.has_ended(volume)
        })?;
        host.engine.remove_volume(volume);
        self.served[number] = false;
        self.summary.parted_volumes += 1;
        self.write_outside(volume);
        if let Some(crash) = self.draw_crash(end, CRASH_PERMILLE) {
            return self.crash_soon(host, crash);
        }
        let has_others = self.clients.iter().any(|client| client.volume() != volume);
        if has_others && self.random.chance(500) {
            self.work_in_peace(&mut host)?;
        }
        self.note(|| format!("volume {number} is added again"));
        self.served[number] = true;
        self.volumes[number].mode = draw_mode(&mut self.random);
        host.engine.add_volume(self.now, &self.volumes[number], self.plan.origin_sizes[number]);
        if let Some(crash) = self.draw_crash(end, 500) {
            self.start_clients::<E>(self.plan.requests);
            return self.crash_soon(host, crash);
        }
        self.end_life(host, end)
    }

    /// Another program writes some blocks of the origin of a volume that was removed: no older cached copy of these may
    /// return.
    fn write_outside(&mut self, volume: VolumeId) {
        let touched = self.oracle.touched(volume, BLOCK_SIZE);
        for extent in touched {
            if !self.random.chance(OUTSIDE_PERMILLE) {
                continue;
            }
            let write = self.oracle.start_write(volume, extent, WriteContent::Stamps);
            let origin = &mut self.devices.origins[usize::from(volume.get())];
            let ticket = origin.write(extent.start, Payload::stamped(volume, extent, write.version));
            origin.complete_write(ticket, Durability::Durable);
            self.oracle.end_write(write.version, extent, Durability::Durable);
        }
        self.note(|| format!("another program wrote blocks of volume {}", volume.get()));
    }

    /// Drops the blocks of a volume; returns the crash that interrupts it, if there is one.
    fn forget<E: Subject>(
        &mut self,
        host: &mut Host<E>,
        volume: VolumeId,
        end: End,
    ) -> Result<Option<Crash>, String> {
        let mut from = Location::new(0);
        while host.engine.cached_blocks(volume) > 0 {
            from = host.engine.forget_some(self.now, volume, from);
            self.pump(host)?;
            if let Some(crash) = self.draw_crash(end, CRASH_PERMILLE) {
                return Ok(Some(crash));
            }
            let events = self.random.below(EVENTS);
            self.run(host, Some(events), |life, host| life.is_idle(host))?;
        }
        Ok(None)
    }
}
