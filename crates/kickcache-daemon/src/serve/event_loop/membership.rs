//! Adding and removing volumes while others are served.

use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{Location, VolumeId};

use super::EventLoop;
use crate::devices::open_volume::OpenVolumeState;
use crate::driver::device::BlockFile;
use crate::plan::removal::{Clients, DirtyFate, in_use, only_volume};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::known_volume::KnownVolume;
use crate::serve::origin::SAMPLES_MAX;
use crate::serve::verbs::membership::{
    GoneVolume, LeavingVolume, Member, Members, MembershipVerbs, NewVolume, PlaceFate, PlaceOrder,
    Quiescence, VolumeBlockCount,
};

impl<E: CacheEngine> EventLoop<E> {
    /// The cache device; refuses during a stop, and unless the device is in service.
    pub(super) fn cache_to_change(&self) -> Result<Arc<BlockFile>, ServeError> {
        let refuse = |what: &str| ServeError::Cache { path: self.cache.clone(), what: what.into() };
        if self.core.stage != LoopPhase::Serving {
            return Err(refuse("its server is stopping"));
        }
        let is_good = self.notes.is_some() && self.core.engine.health() == CacheHealth::Good;
        let cache = self.core.driver.shared_file(Device::Cache).filter(|_| is_good);
        cache.ok_or_else(|| {
            refuse("it is out of use or out of service, and its volumes cannot be changed until another one is put into use (`kickcache leave-out`, then `kickcache replace`), or the daemon is stopped")
        })
    }

    fn member(&self, index: usize) -> Member {
        let block_device =
            self.frontends.served_at(index, self.core.volumes.name(index)).ublk.map(Into::into);
        Member { volume: KnownVolume::of(&self.core.volumes[index]), block_device }
    }

    fn tell_turn(&self, what: &str, index: usize, begun: Instant) {
        let micros = self.core.clock.now().since(begun).as_nanos() / 1_000;
        let name = self.core.volumes.name(index);
        tracing::debug!(event = "membership_turn", volume = name, "{name} {what} in {micros} us of the loop");
    }
}

impl<E: CacheEngine> MembershipVerbs for EventLoop<E> {
    fn members(&self) -> Result<Members, ServeError> {
        let cache = self.cache_to_change()?;
        let origins = self.core.volumes.iter().map(|volume| Device::Origin(volume.info.id));
        Ok(Members {
            superblock: self.superblock.clone(),
            cache,
            origins: origins.filter_map(|device| self.core.driver.shared_file(device)).collect(),
            addresses: self.frontends.addresses(),
            volumes: self.core.volumes.indices().map(|index| self.member(index)).collect(),
            io_engine: self.core.driver.io_engine(),
        })
    }

    fn unserved_blocks(&self, id: VolumeId) -> VolumeBlockCount {
        let engine = &self.core.engine;
        let samples = engine.clean_samples(id, SAMPLES_MAX);
        VolumeBlockCount { cached: engine.cached_blocks(id), not_clean: engine.not_clean_blocks(id), samples }
    }

    fn join(&mut self, now: Instant, joining: NewVolume) -> Result<(), ServeError> {
        let NewVolume { superblock, volume, places, exposure } = joining;
        let begun = self.core.clock.now();
        self.superblock = superblock;
        self.cache_to_change()?;
        let (settings, size) = (volume.settings, volume.size);
        let id = settings.volume;
        let OpenVolumeState { volume, medium, client_cap } = volume.into_served();
        let places = self.frontends.ready(places, exposure)?;
        let index = self.core.volumes.insert(volume);
        self.frontends.join(&mut self.core, index, places);
        self.core.engine.add_volume(now, &settings, size);
        self.core.throttles.set(id, client_cap);
        self.core.driver.add(medium);
        self.core.times.add(now, id);
        self.core.curves.add(id);
        self.tell_turn("added", index, begun);
        Ok(())
    }

    fn begin_removal(&mut self, name: &str, clients: Clients) -> Result<VolumeId, ServeError> {
        let id = self.volume_id(name)?;
        let refuse = |what: String| ServeError::Volume { name: name.into(), what };
        let Some(index) = self.core.volumes.index_of(name) else { return Ok(id) };
        if self.core.volumes.count() == 1 {
            return Err(refuse(only_volume(&self.cache)));
        }
        if let Some(what) = in_use(name, self.frontends.sessions(index), clients) {
            return Err(refuse(what));
        }
        self.frontends.hide(&mut self.core, index);
        // Requests that wait for a cap are passed on now, so that they end with the requests in flight.
        self.core.throttles.open(id);
        self.core.begin_due();
        self.resizes.abandon(id);
        self.leaving = Some(LeavingVolume { id, index });
        Ok(id)
    }

    fn quiesce(&mut self, now: Instant, dirty: DirtyFate) -> Result<Quiescence, ServeError> {
        let Some(LeavingVolume { id, index }) = self.leaving else { return Err(ServeError::Stopped) };
        let have_ended = self.frontends.end_quiet(&mut self.core, index);
        if self.core.stage != LoopPhase::Serving {
            let name = self.core.volumes.name(index).into();
            return Err(ServeError::Volume { name, what: "it stays: its server is stopping".into() });
        }
        let engine = &mut self.core.engine;
        let not_clean = engine.not_clean_blocks(id);
        let is_idle = match dirty {
            DirtyFate::WrittenBack => engine.is_idle(id),
            DirtyFate::Abandoned => engine.has_ended(id),
        };
        let quiescence = Quiescence { have_ended, not_clean, is_idle };
        if !quiescence.is_reached(dirty) {
            if dirty == DirtyFate::WrittenBack {
                engine.drain(now, id);
            }
            engine.flush_soon(now, id);
            self.pump(now);
        }
        Ok(quiescence)
    }

    fn give_up_origin(&mut self, id: VolumeId) {
        self.core.driver.give_up(Device::Origin(id));
    }

    fn forget_some(&mut self, now: Instant, id: VolumeId, from: Location) -> Option<Location> {
        let begun = self.core.clock.now();
        let mut next = Some(self.core.engine.forget_some(now, id, from));
        if self.core.engine.cached_blocks(id) == 0 {
            self.core.engine.seal_forgotten(now, id);
            next = None;
        }
        self.pump(now);
        if let Some(LeavingVolume { index, .. }) = self.leaving {
            self.tell_turn("partly dropped", index, begun);
        }
        next
    }

    fn is_forgotten(&self, id: VolumeId) -> bool {
        self.core.engine.is_forgotten(id)
    }

    fn keep_volume(&mut self) {
        let Some(LeavingVolume { id, index }) = self.leaving.take() else { return };
        self.core.throttles.close(id);
        self.frontends.show(&mut self.core, index);
    }

    fn end_removal(&mut self, superblock: Option<Box<Superblock>>) -> Option<GoneVolume> {
        let begun = self.core.clock.now();
        let LeavingVolume { id, index } = self.leaving.take()?;
        if let Some(superblock) = superblock {
            self.superblock = *superblock;
        }
        self.tell_last_of(begun, Device::Origin(id));
        self.frontends.part(&mut self.core, index);
        self.core.engine.remove_volume(id);
        let device = self.core.driver.remove(Device::Origin(id));
        self.core.recorders.end(id);
        self.core.throttles.remove(id);
        self.damaged.retain(|key| key.volume() != id);
        self.troubles.forget(Device::Origin(id));
        self.tell_turn("removed", index, begun);
        let volume = self.core.volumes.remove(index);
        Some(GoneVolume { _volume: volume, _device: device })
    }

    fn change_places(&mut self, order: PlaceOrder) -> Result<(), ServeError> {
        let PlaceOrder { name, added, removed, guests, device, exposure } = order;
        self.volume_id(&name)?;
        let Some(index) = self.core.volumes.index_of(&name) else { return Ok(()) };
        let goes = guests == PlaceFate::Goes;
        if goes && self.frontends.sessions(index).vhost_user > 0 {
            let what = "a virtual machine is connected to the socket that is to go; stop that first".into();
            return Err(ServeError::Volume { name, what });
        }
        let added = self.frontends.ready(added, exposure)?;
        removed.iter().for_each(|address| self.frontends.part_from(&mut self.core, index, address));
        if goes {
            self.frontends.part_from_guests(&mut self.core, index);
        }
        if device == PlaceFate::Goes {
            self.frontends.part_from_host(&mut self.core, index);
        }
        self.frontends.join(&mut self.core, index, added);
        Ok(())
    }
}
