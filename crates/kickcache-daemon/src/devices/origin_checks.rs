//! Origins are compared with the cache at a start, before anything is written to them.

use kickcache_engine::device::Device;
use kickcache_engine::engine::Engine;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::VolumeId;
use kickcache_units::counted;

use crate::devices::bypassed_device::origin_moved;
use crate::devices::cache_device::store_superblock;
use crate::devices::open_volume::OpenVolume;
use crate::devices::stop_record_check::{Finding, LastStop, OriginCheck, warn_of_no_proof};
use crate::plan::cache_spec::CacheService;
use crate::serve::error::{RefusedVolume, ServeError};
use crate::serve::event_loop::{EventLoop, Origins};
use crate::serve::origin::{SAMPLES_MAX, compare};
use crate::serve::served_volumes::Volume;
use crate::shell_command::ShellCommand;

pub(crate) struct VolumeCheck {
    pub(crate) volume: VolumeId,
    pub(crate) is_changed: bool,
    check: OriginCheck,
}

impl VolumeCheck {
    pub(crate) fn of(volume: &OpenVolume) -> VolumeCheck {
        let (is_changed, check) = (volume.claims.changed, volume.check.clone());
        VolumeCheck { volume: volume.settings.volume, is_changed, check }
    }
}

impl EventLoop<Engine> {
    /// Compares remote origins with clean blocks, before any other request.
    pub(crate) fn compare_origins(
        &mut self,
        service: CacheService,
        checks: &[VolumeCheck],
    ) -> Result<(), ServeError> {
        let EventLoop { core, .. } = self;
        let is_changed = |volume| checks.iter().any(|check| check.volume == volume && check.is_changed);
        for Volume { info, .. } in core.volumes.iter() {
            let is_known = service == CacheService::InService && !is_changed(info.id);
            let count = if is_known { SAMPLES_MAX } else { 0 };
            let samples = core.engine.clean_samples(info.id, count);
            core.driver.begin_compare(Device::Origin(info.id), &samples);
        }
        // All comparisons run at once, so their waiting times do not add up.
        let mut refused = Vec::new();
        for Volume { info, .. } in core.volumes.iter() {
            if let Err(what) = core.driver.end_compare(Device::Origin(info.id)) {
                refused.push(RefusedVolume { name: info.name.clone(), what });
            }
        }
        ServeError::refusing(refused)
    }

    /// Drops the clean blocks of a changed origin, durably; refuses the origin if blocks are dirty.
    pub(crate) fn drop_changed(&mut self, volume: VolumeId) -> Result<(), ServeError> {
        let dirty = self.core.engine.dirty_blocks(volume).len() as u64;
        if dirty > 0 {
            let name = self.name_of(volume);
            let remedy = self.dirty_remedy(volume, dirty);
            let what =
                format!("its origin was changed, but {remedy}, then start with --origin-changed again");
            return Err(ServeError::Volume { name, what });
        }
        let dropped = self.core.engine.cached_blocks(volume);
        self.drop_clean(volume)?;
        tracing::info!(
            event = "blocks_dropped",
            "the origin was changed: {} dropped",
            counted(dropped, "cached block")
        );
        Ok(())
    }

    fn name_of(&self, volume: VolumeId) -> String {
        let found = self.core.volumes.iter().find(|found| found.info.id == volume);
        found.map(|found| found.info.name.clone()).unwrap_or_default()
    }

    fn dirty_remedy(&self, volume: VolumeId, dirty: u64) -> String {
        let name = self.name_of(volume);
        let drain = ShellCommand::drain_older(&name, &self.cache, &self.commands.state);
        format!(
            "the cache holds {} for it; write the dirty blocks back into the changed origin ({drain}), or lose them ({})",
            counted(dirty, "dirty block"),
            self.commands.detach(&self.cache, &name).word("--lose-dirty")
        )
    }

    /// Drops the blocks of a volume without dirty blocks, durably.
    pub(crate) fn drop_clean(&mut self, volume: VolumeId) -> Result<(), ServeError> {
        self.core.engine.drop_volume(volume);
        while !self.core.engine.is_all_durable() {
            let now = self.core.clock.now();
            self.pump(now);
            if !self.core.engine.is_all_durable() {
                let until = self.core.engine.poll_timeout();
                self.core.driver.wait(now, until).map_err(ServeError::system("wait for the cache device"))?;
            }
        }
        if self.core.engine.status().health != CacheHealth::Good {
            let what = "it failed during a write".into();
            return Err(ServeError::Cache { path: self.cache.clone(), what });
        }
        Ok(())
    }

    /// Compares files and block devices with clean blocks, if they may be other disks or may have been changed.
    /// Returns the volumes with stale clean blocks.
    pub(crate) fn check_local_origins(
        &mut self,
        service: CacheService,
        checks: &[VolumeCheck],
    ) -> Result<Vec<VolumeId>, ServeError> {
        let (mut refused, mut stale) = (Vec::new(), Vec::new());
        for VolumeCheck { volume, check, .. } in checks {
            let (volume, check) = (*volume, check.clone());
            let Some(file) = self.core.driver.shared_file(Device::Origin(volume)) else { continue };
            let is_current = service == CacheService::InService;
            // Clean blocks of a cache device out of service are not used, and prove no sameness.
            let last_stop = if is_current { check.last_stop } else { LastStop::Checked };
            let check = OriginCheck { last_stop, ..check };
            let count = if is_current && check.needs_samples() { SAMPLES_MAX } else { 0 };
            let compared = compare(&file, &self.core.engine.clean_samples(volume, count));
            let name = self.name_of(volume);
            match check.decide(self.core.engine.cached_blocks(volume), &compared) {
                Err(what) => refused.push(RefusedVolume { name, what }),
                Ok(Finding::Changed(why)) => match self.alter(volume, &why) {
                    Ok(()) => stale.push(volume),
                    Err(what) => refused.push(RefusedVolume { name, what }),
                },
                Ok(Finding::NoProof(count)) => warn_of_no_proof(&name, count),
                Ok(Finding::Same) => {}
            }
            if let Some(newer) = check.doubt.and_then(|doubt| doubt.newer).filter(|_| refused.is_empty()) {
                self.rename_origin(volume, newer)?;
            }
        }
        ServeError::refusing(refused)?;
        self.origins = Origins::Used;
        Ok(stale)
    }

    /// Refuses a changed origin if blocks in the cache are dirty.
    fn alter(&self, volume: VolumeId, why: &str) -> Result<(), String> {
        let dirty = self.core.engine.dirty_blocks(volume).len() as u64;
        let name = self.name_of(volume);
        if dirty > 0 {
            self.notes.iter().for_each(|notes| notes.note_changed(volume));
            return Err(format!(
                "its origin was changed while it was not served ({why}), but {}; if its content is the same, confirm it with {}",
                self.dirty_remedy(volume, dirty),
                origin_moved(&name)
            ));
        }
        tracing::warn!(
            event = "origin_changed",
            "the origin of {name} was changed while it was not served ({why}): {} dropped",
            counted(self.core.engine.cached_blocks(volume), "cached block")
        );
        Ok(())
    }

    /// Records the present identity of an origin that was recognised by an older identity, if it has records.
    fn rename_origin(&mut self, volume: VolumeId, identity: String) -> Result<(), ServeError> {
        let cache = self.core.driver.shared_file(Device::Cache);
        let (Some(cache), Some(notes)) = (cache, &self.notes) else { return Ok(()) };
        let renamed = self.superblock.rename_origin(volume, &identity);
        renamed.map_err(|source| ServeError::Engine { path: self.cache.clone(), source })?;
        store_superblock(&cache, &mut self.superblock)?;
        notes
            .rename(volume, &identity)
            .map_err(|error| ServeError::Volume { name: self.name_of(volume), what: error.to_string() })?;
        if let Some(served) = self.core.volumes.find_mut(volume) {
            served.identity.origins.insert(0, identity.clone());
            served.info.origin = identity;
        }
        Ok(())
    }
}
