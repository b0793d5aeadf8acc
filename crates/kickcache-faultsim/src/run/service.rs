//! The operator's handling of a cache device that is out of service: lives without it, and later a format.

use kickcache_engine::config::{EngineSettings, Service, VolumeSettings};
use kickcache_engine::engine::Phase;
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent, VolumeId, VolumeSet};

use crate::device::SimulatedDevice;
use crate::host::Host;
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

/// How often, in 1/1000, a start with a device out of service formats the device.
const FORMAT_PERMILLE: u64 = 250;
/// How often, in 1/1000, a start with a device out of service formats it, in runs in which most lives abandon
/// the cache device.
const FORMAT_ABANDONED_PERMILLE: u64 = 900;
/// Volumes that write their older blocks back, in 1/1000; the other volumes lose these blocks.
const ACCEPT_OLDER_PERMILLE: u64 = 400;
/// After this many events, the writeback of older blocks is interrupted.
const DRAIN_EVENTS: u64 = 20_000;

impl Simulation {
    /// Leaves out or formats a cache device that is out of service. Returns whether the life has a cache.
    pub(super) fn prepare_cache<E: Subject>(&mut self) -> Result<Service, String> {
        self.take_back_cache();
        let Some(incomplete) = self.out_of_service::<E>()? else { return Ok(Service::In) };
        self.summary.lives_after_service += 1;
        for number in 0..self.volumes.len() {
            if incomplete.contains(volume_id(number)) {
                self.resolve_incomplete::<E>(volume_id(number))?;
            }
        }
        let is_abandoned = self.plan.abandoned.is_some();
        let format = if is_abandoned { FORMAT_ABANDONED_PERMILLE } else { FORMAT_PERMILLE };
        if self.random.chance(format) {
            self.note(|| "the cache device is formatted".to_owned());
            self.format_another::<E>()?;
            return Ok(Service::In);
        }
        self.note(|| "the cache device is out of service and left out".to_owned());
        // The host makes a record as well, because the mark that was read may not be durable yet.
        self.devices.noted = self.out_of_service::<E>()?;
        let mut blank = SimulatedDevice::new(self.plan.cache_size);
        E::format(&mut blank, [9; 16], &self.plan.origin_sizes)?;
        self.aside = Some(std::mem::replace(&mut self.devices.cache, blank));
        Ok(Service::Out)
    }

    pub(super) fn take_back_cache(&mut self) {
        if let Some(aside) = self.aside.take() {
            self.devices.cache = aside;
        }
    }

    /// The number of volumes that the record declares complete; `None` if the cache device is in service, has no record
    /// yet, or was out of service before this life.
    pub(super) fn recorded_complete<E: Subject>(&self, host: &Host<E>) -> Option<usize> {
        if host.engine.health() != CacheHealth::OutOfService || self.aside.is_some() {
            return None;
        }
        let incomplete = self.out_of_service::<E>().ok()??;
        Some((0..self.volumes.len()).filter(|number| !incomplete.contains(volume_id(*number))).count())
    }

    /// The volumes that may need the cache device, if it is out of service.
    fn out_of_service<E: Subject>(&self) -> Result<Option<VolumeSet>, String> {
        let marked = match E::service(&self.devices.cache)? {
            ServiceMark::InService => None,
            ServiceMark::OutOfService { incomplete } => Some(incomplete),
        };
        let all = VolumeSet::ALL;
        let told = [marked, self.devices.noted].into_iter().flatten();
        Ok(told.fold(None, |known, incomplete| Some(known.unwrap_or(all).intersection(incomplete))))
    }

    /// The dirty blocks of a volume on the cache device are lost, or overwrite blocks of the origin. If the log cannot
    /// be read back, the volume may have lost data, and the oracle distrusts it.
    fn resolve_incomplete<E: Subject>(&mut self, volume: VolumeId) -> Result<(), String> {
        self.summary.incomplete_volumes += 1;
        let settings = self.volumes[usize::from(volume.get())];
        let mut host = self.open_in_spite::<E>(settings)?;
        if host.engine.phase() != Phase::Running {
            self.oracle.distrust(volume);
            self.kill_host(host);
            return self.note_resolved::<E>(volume);
        }
        let extent = |block: BlockIndex| ByteExtent { start: block.byte_offset(), length: BLOCK_SIZE };
        let dirty: Vec<ByteExtent> = host.engine.dirty_blocks(volume).into_iter().map(extent).collect();
        self.note(|| {
            format!("volume {}: {} dirty blocks of a device out of service", volume.get(), dirty.len())
        });
        if self.random.chance(ACCEPT_OLDER_PERMILLE) {
            host.engine.drain(self.now, volume);
            let is_drained = |host: &Host<E>| {
                let status = host.engine.status();
                status
                    .volumes
                    .iter()
                    .all(|volume| volume.dirty_blocks + volume.unflushed_blocks == volume.damaged_blocks)
            };
            self.run(&mut host, Some(DRAIN_EVENTS), |_, host| is_drained(host))?;
        }
        self.kill_host(host);
        dirty.into_iter().for_each(|extent| self.oracle.loosen(volume, extent));
        self.note_resolved::<E>(volume)
    }

    /// Reads the log of a device that is out of service, as a tool does.
    fn open_in_spite<E: Subject>(&mut self, settings: VolumeSettings) -> Result<Host<E>, String> {
        let out = EngineSettings { service: Service::Out, ..self.plan.settings };
        let engine = E::open(self.now, &self.devices.cache, out, &[settings])?;
        let mut host = self.begin_life(engine);
        self.faulty = false;
        self.run(&mut host, None, |_, host| host.engine.phase() != Phase::Recovering)?;
        Ok(host)
    }

    fn kill_host<E: Subject>(&mut self, host: Host<E>) {
        host.kill(&mut self.devices).into_iter().for_each(|volume| self.oracle.doom(volume));
        self.faulty = self.plan.faults.any();
    }

    /// Records that a volume no longer needs the cache device.
    fn note_resolved<E: Subject>(&mut self, volume: VolumeId) -> Result<(), String> {
        let Some(mut incomplete) = self.out_of_service::<E>()? else { return Ok(()) };
        incomplete.remove(volume);
        self.devices.noted = Some(incomplete);
        E::set_service(&mut self.devices.cache, ServiceMark::OutOfService { incomplete })
    }
}
