//! Volumes that are added and removed while others are served.
//!
//! The steps of a removal: [`Engine::is_idle`], [`Engine::forget_some`], [`Engine::seal_forgotten`],
//! [`Engine::is_forgotten`], [`Engine::remove_volume`].

use crate::cache::slots::SlotState;
use crate::config::{Mode, VolumeSettings};
use crate::engine::Engine;
use crate::format::journal::Fact;
use crate::order::DurableWaiter;
use crate::policy::offload::Offload;
use crate::redo::{Redo, RedoSettings};
use crate::task::Task;
use crate::time::Instant;
use crate::units::{Location, VolumeId};
use crate::volume::Volume;

/// The most slots that one step examines, and the most blocks that it drops.
const SLOTS_MAX: u32 = 1 << 16;
const BLOCKS_MAX: u32 = 1 << 9;

impl Engine {
    /// Begins to serve a volume of `size` bytes. The caller has verified the origin and the settings.
    ///
    /// # Panics
    /// If it is served already.
    pub fn add_volume(&mut self, now: Instant, settings: &VolumeSettings, size: u64) {
        assert!(self.state.volumes.find(settings.volume).is_none(), "a volume is served once");
        self.state.now = now;
        self.is_stirred = true;
        let offload = Offload::new(self.state.settings.origin_offload);
        self.state.volumes.add(Volume::new(*settings, size, offload, now));
        self.state.pool.set_volumes(self.state.volumes.known());
    }

    /// From here on the volumes of a group are written back in cuts, by way of a redo journal. The groups that the
    /// journal has from earlier are written to the origins first.
    ///
    /// # Panics
    /// If the engine has a redo journal, or a volume of the group is not in write-back mode.
    pub fn attach_redo(&mut self, now: Instant, settings: RedoSettings) {
        let state = &mut self.state;
        assert!(state.redo.is_none(), "an engine has one redo journal");
        let mut volumes = settings.volumes.iter().filter_map(|volume| state.volumes.find(volume));
        assert!(volumes.all(|volume| volume.settings.mode == Mode::WriteBack), "the mode was checked");
        state.now = now;
        state.redo = Some(Redo::new(now, settings).into());
        state.agenda.push_back(Task::Redo);
        self.is_stirred = true;
        self.run_agenda();
    }

    /// Dirty or unflushed blocks of a volume, served or not.
    pub fn not_clean_blocks(&self, volume: VolumeId) -> u64 {
        self.state.cache.volume(volume).not_clean()
    }

    /// Whether a volume has no request in flight, and its origin no access or flush.
    pub fn has_ended(&self, volume: VolumeId) -> bool {
        let state = &self.state;
        let found = state.volumes.get(volume);
        // While a writeback is in flight, the origin's queue is not empty.
        state.requests.count_for(volume) == 0 && found.queue.is_empty() && !found.flush.is_in_flight()
    }

    /// Whether a volume has no operation in flight and its origin has flushed all its writes.
    pub fn is_idle(&self, volume: VolumeId) -> bool {
        self.has_ended(volume) && !self.state.volumes.get(volume).flush.is_unsettled()
    }

    /// Requests an early flush of the origin of a volume.
    pub fn flush_soon(&mut self, now: Instant, volume: VolumeId) {
        self.state.now = now;
        self.is_stirred = true;
        self.state.volumes.get_mut(volume).flush.want();
    }

    /// Drops blocks of an idle volume, **dirty ones too**, from a place of the cache device on; returns the place of
    /// the next step. Done when [`Engine::cached_blocks`] is 0.
    pub fn forget_some(&mut self, now: Instant, volume: VolumeId, from: Location) -> Location {
        self.state.now = now;
        self.is_stirred = true;
        let slots = self.state.cache.slots().count();
        let end = slots.min(from.get().saturating_add(SLOTS_MAX));
        let mut forgotten = 0;
        for place in from.get()..end {
            let slots = self.state.cache.slots();
            let location = Location::new(place);
            if slots.state(location) == SlotState::Dead || slots.key(location).volume() != volume {
                continue;
            }
            if forgotten == BLOCKS_MAX || self.state.device.is_journal_full() {
                self.state.agenda.push_back(Task::Reclaim);
                self.state.agenda.extend(self.state.device.is_journal_full().then_some(Task::Checkpoint));
                return location;
            }
            forgotten += 1;
            let key = self.state.cache.slots().key(location);
            if mutant!(PartingNotRecorded) {
                self.state.cache.remove(key);
                continue;
            }
            self.state.forget(key);
        }
        Location::new(if end == slots { 0 } else { end })
    }

    /// Makes it durable that a volume has no blocks.
    ///
    /// # Panics
    /// If it has blocks.
    pub fn seal_forgotten(&mut self, now: Instant, volume: VolumeId) {
        assert_eq!(self.cached_blocks(volume), 0, "all blocks were dropped");
        self.state.now = now;
        self.is_stirred = true;
        if !mutant!(PartingNotRecorded) {
            self.state.device.record(Fact::Dropped(volume));
        }
        self.state.device.note_gone();
        if mutant!(PartingNotAwaited) {
            self.state.end_forgetting(volume);
        }
        self.state.agenda.push_back(Task::Barrier(DurableWaiter::Forgotten(volume)));
    }

    /// Whether it is durable, or cannot become durable, that a volume has no blocks.
    pub fn is_forgotten(&self, volume: VolumeId) -> bool {
        self.state.volumes.get(volume).is_forgotten
    }

    /// From here on the engine has no such volume.
    ///
    /// # Panics
    /// If the volume has an operation in flight or blocks left, or [`Engine::is_forgotten`] is false.
    pub fn remove_volume(&mut self, volume: VolumeId) {
        assert!(self.has_ended(volume) && self.is_forgotten(volume), "the volume has no blocks left");
        assert_eq!(self.cached_blocks(volume), 0, "the volume has no blocks left");
        self.state.volumes.remove(volume);
        self.state.pool.set_volumes(self.state.volumes.known());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;
    use crate::units::BLOCK_SIZE;

    const VOLUME: VolumeId = VolumeId::new(0);
    const OTHER: VolumeId = VolumeId::new(1);

    fn let_go(scene: &mut Scene) {
        scene.engine.flush_soon(scene.now, VOLUME);
        scene.run();
        assert!(scene.engine.is_idle(VOLUME));
        let mut from = Location::new(0);
        while scene.engine.cached_blocks(VOLUME) > 0 {
            from = scene.engine.forget_some(scene.now, VOLUME, from);
            scene.run();
        }
        scene.engine.seal_forgotten(scene.now, VOLUME);
        scene.run();
        assert!(scene.engine.is_forgotten(VOLUME));
        scene.engine.remove_volume(VOLUME);
    }

    #[test]
    fn a_volume_that_returns_has_no_cached_blocks() {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            let mut scene = Scene::new(mode);
            scene.write(0, 64 * BLOCK_SIZE).0.unwrap();
            scene.read(1 << 20, 1 << 20).0.unwrap();
            assert!(scene.engine.cached_blocks(VOLUME) >= 64);
            let_go(&mut scene);
            assert!(scene.engine.status().volumes.is_empty());
            scene.pass(crate::time::Duration::from_millis(5_000));
            scene.engine.add_volume(scene.now, &VolumeSettings::new(VOLUME), 1 << 30);
            let (result, seen) = scene.read(0, BLOCK_SIZE);
            result.unwrap();
            assert!(seen.iter().any(|line| line.contains("origin")), "{seen:?}");
        }
    }

    #[test]
    fn the_others_have_their_room_again() {
        let mut scene = Scene::new(Mode::WriteBack);
        let share = |scene: &Scene| scene.engine.state.volumes.known().bits().count_ones();
        scene.engine.add_volume(scene.now, &VolumeSettings::new(OTHER), 1 << 30);
        assert_eq!(share(&scene), 2);
        let_go(&mut scene);
        assert_eq!(share(&scene), 1);
        assert_eq!(scene.engine.status().volumes.len(), 1);
    }

    /// Otherwise another volume could get the number, and after a power cut the blocks.
    #[test]
    fn a_volumes_number_is_free_once_its_removal_is_durable() {
        for held in ["cache log 0", "cache flush"] {
            let mut scene = Scene::new(Mode::WriteThrough);
            scene.hold(held);
            scene.engine.seal_forgotten(scene.now, VOLUME);
            scene.run();
            assert!(!scene.engine.is_forgotten(VOLUME), "{held}");
            scene.end_held();
            assert!(scene.engine.is_forgotten(VOLUME));
        }
    }

    #[test]
    fn unflushed_origin_writes_keep_a_volume_busy() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.write(0, BLOCK_SIZE).0.unwrap();
        assert!(!scene.engine.is_idle(VOLUME), "a power cut would lose it");
        scene.engine.flush_soon(scene.now, VOLUME);
        scene.run();
        assert!(scene.engine.is_idle(VOLUME));
    }
}
