//! Adding and removing volumes while others are served: short steps, one a turn.

use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{Location, VolumeId};
use kickcache_units::{are, counted};

use super::EventLoop;
use crate::devices::open_volume::OpenVolumeState;
use crate::driver::device::BlockFile;
use crate::plan::removal::{DirtyFate, in_use, only_volume};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::event_loop::removal_state::{Answer, RemovalState, RemovalStep};
use crate::serve::known_volume::KnownVolume;
use crate::serve::origin::SAMPLES_MAX;
use crate::serve::verbs::membership::{
    EmptyVolume, GoneVolume, Lease, LeaveOrder, Member, Members, MembershipOrder, NewVolume, PlaceFate,
    PlaceOrder, VolumeBlockCount,
};

impl<E: CacheEngine> EventLoop<E> {
    /// If the caller does not wait any more, the failed send is harmless.
    pub(super) fn take_membership_order(&mut self, now: Instant, order: MembershipOrder) {
        match order {
            MembershipOrder::Members(answer) => drop(answer.send(self.members())),
            MembershipOrder::Held(id, answer) => {
                let samples = self.core.engine.clean_samples(id, SAMPLES_MAX);
                let engine = &self.core.engine;
                let (cached, not_clean) = (engine.cached_blocks(id), engine.not_clean_blocks(id));
                drop(answer.send(VolumeBlockCount { cached, not_clean, samples }));
            }
            MembershipOrder::Lease(answer) => {
                let lease = self.lease();
                self.is_leased |= lease.is_ok();
                drop(answer.send(lease));
            }
            MembershipOrder::EndLease(superblock, answer) => {
                self.end_lease(superblock.map(|superblock| *superblock));
                let _ = answer.send(());
            }
            MembershipOrder::Join(joining, answer) => drop(answer.send(self.join(now, *joining))),
            MembershipOrder::Leave(order, answer) => {
                if let Err(error) = self.begin_leave(now, &order, &answer) {
                    drop(answer.send(Err(error)));
                }
            }
            MembershipOrder::EndLeave(superblock, answer) => {
                let gone = self.end_leave();
                self.end_lease(superblock.map(|superblock| *superblock));
                gone.into_iter().for_each(|gone| drop(answer.send(gone)));
            }
            MembershipOrder::ChangePlaces(order, answer) => {
                drop(answer.send(self.change_places(*order)));
            }
        }
    }

    /// The cache device; refuses during a stop, and unless the device is in service.
    fn cache_to_change(&self) -> Result<Arc<BlockFile>, ServeError> {
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

    fn member(&self, index: usize) -> Member {
        let block_device =
            self.frontends.served_at(index, self.core.volumes.name(index)).ublk.map(Into::into);
        Member { volume: KnownVolume::of(&self.core.volumes[index]), block_device }
    }

    fn lease(&self) -> Result<Lease, ServeError> {
        let cache = self.cache_to_change()?;
        if self.is_storing_superblock() {
            let what = "its superblock is being written for another change; try again".into();
            return Err(ServeError::Busy { path: self.cache.clone(), what });
        }
        Ok(Lease { superblock: self.superblock.clone(), cache })
    }

    pub(super) fn end_lease(&mut self, superblock: Option<Superblock>) {
        if let Some(superblock) = superblock {
            self.superblock = superblock;
        }
        self.is_leased = false;
        // A new size of a volume may have waited for the lease.
        self.lease_to_resize();
    }

    fn join(&mut self, now: Instant, joining: NewVolume) -> Result<(), ServeError> {
        let NewVolume { superblock, volume, places, exposure } = joining;
        let begun = self.core.clock.now();
        self.end_lease(Some(superblock));
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

    /// Logs how long the loop was occupied by a change of a volume.
    fn tell_turn(&self, what: &str, index: usize, begun: Instant) {
        let micros = self.core.clock.now().since(begun).as_nanos() / 1_000;
        let name = self.core.volumes.name(index);
        tracing::debug!(event = "membership_turn", volume = name, "{name} {what} in {micros} us of the loop");
    }

    fn begin_leave(&mut self, now: Instant, order: &LeaveOrder, answer: &Answer) -> Result<(), ServeError> {
        let LeaveOrder { name, clients, dirty } = order;
        self.lease()?;
        let id = self.volume_id(name)?;
        let refuse = |what: String| ServeError::Volume { name: name.clone(), what };
        if self.resizes.stores(id) {
            return Err(refuse("its resize is in progress; try again later".into()));
        }
        let Some(index) = self.core.volumes.index_of(name) else { return Ok(()) };
        if self.core.volumes.count() == 1 {
            return Err(refuse(only_volume(&self.cache)));
        }
        if let Some(what) = in_use(name, self.frontends.sessions(index), *clients) {
            return Err(refuse(what));
        }
        self.frontends.hide(&mut self.core, index);
        // Requests that wait for a cap are passed on now, so that they end with the requests in flight.
        self.core.throttles.open(id);
        self.core.begin_due();
        self.resizes.abandon(id);
        self.leaving = Some(RemovalState::begin(now, id, index, *dirty, answer.clone()));
        Ok(())
    }

    /// Continues the removal of a volume.
    pub(super) fn advance_leaving(&mut self, now: Instant) {
        let Some(RemovalState { id, index, dirty, step, .. }) = self.leaving else { return };
        match step {
            RemovalStep::Quieting => self.go_quiet(now, id, index, dirty),
            RemovalStep::Forgetting(from) => self.forget(now, id, from),
            RemovalStep::Sealing if self.core.engine.is_forgotten(id) => self.answer_left(id),
            RemovalStep::Sealing | RemovalStep::Recording => {}
        }
    }

    fn go_quiet(&mut self, now: Instant, id: VolumeId, index: usize, dirty: DirtyFate) {
        let have_ended = self.frontends.end_quiet(&mut self.core, index);
        let not_clean = self.core.engine.not_clean_blocks(id);
        let is_clean = not_clean == 0 || dirty == DirtyFate::Abandoned;
        let is_idle = match dirty {
            DirtyFate::WrittenBack => self.core.engine.is_idle(id),
            DirtyFate::Abandoned => self.core.engine.has_ended(id),
        };
        let Some(leaving) = &mut self.leaving else { return };
        if self.core.stage != LoopPhase::Serving {
            return self.stay("its server is stopping");
        }
        if have_ended && is_clean && is_idle {
            leaving.lost_blocks = not_clean;
            leaving.step = RemovalStep::Forgetting(Location::new(0));
            return;
        }
        if leaving.gives_up(now) {
            self.core.driver.give_up(Device::Origin(id));
        } else if leaving.is_late(now) {
            let what = match (have_ended, is_clean) {
                (false, _) => "requests of its clients do not end, because its origin does not respond; \
                               correct that (the status shows the error), or stop the daemon"
                    .into(),
                (true, false) => format!(
                    "{} {} not written back yet; drain it, or use --abandon-dirty",
                    counted(not_clean, "dirty block"),
                    are(not_clean)
                ),
                (true, true) => "its origin does not complete its requests, or a flush".into(),
            };
            return self.stay(&what);
        }
        if dirty == DirtyFate::WrittenBack {
            self.core.engine.drain(now, id);
        }
        self.core.engine.flush_soon(now, id);
        self.pump(now);
    }

    fn forget(&mut self, now: Instant, id: VolumeId, from: Location) {
        let begun = self.core.clock.now();
        let mut step = RemovalStep::Forgetting(self.core.engine.forget_some(now, id, from));
        if self.core.engine.cached_blocks(id) == 0 {
            self.core.engine.seal_forgotten(now, id);
            step = RemovalStep::Sealing;
        }
        self.pump(now);
        let Some(leaving) = &mut self.leaving else { return };
        leaving.step = step;
        let index = leaving.index;
        self.tell_turn("partly dropped", index, begun);
    }

    /// Ends the removal: the volume stays, and accepts clients again unless the server stops.
    fn stay(&mut self, why: &str) {
        let Some(RemovalState { id, index, answer, .. }) = self.leaving.take() else { return };
        self.core.throttles.close(id);
        self.frontends.show(&mut self.core, index);
        let name = self.core.volumes.name(index).to_owned();
        let error = ServeError::Volume { name, what: format!("it stays: {why}") };
        if let Some(answer) = answer {
            drop(answer.send(Err(error)));
        }
    }

    fn answer_left(&mut self, id: VolumeId) {
        let Some(cache) = self.core.driver.shared_file(Device::Cache) else { return };
        let lease = Lease { superblock: self.superblock.clone(), cache };
        let Some(leaving) = &mut self.leaving else { return };
        leaving.step = RemovalStep::Recording;
        self.is_leased = true;
        let left = EmptyVolume { id, lost_blocks: leaving.lost_blocks, lease };
        if let Some(answer) = leaving.answer.take() {
            drop(answer.send(Ok(left)));
        }
    }

    /// Removes a volume that has no cached block left.
    fn end_leave(&mut self) -> Option<GoneVolume> {
        let begun = self.core.clock.now();
        let RemovalState { id, index, .. } = self.leaving.take()?;
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
