//! Volumes that are written back in cuts: their redo journal, and the examination of the origins without the cache
//! device.

use kickcache_engine::format::redo::{RedoTail, TAIL_OFFSETS};
use kickcache_engine::redo::RedoSettings;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

use crate::content::{Block, Version};
use crate::device::SimulatedDevice;
use crate::host::Host;
use crate::oracle::book::Tick;
use crate::oracle::write_content::WriteContent;
use crate::run::group_history::{FoundRedo, UUID, find};
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

impl Simulation {
    /// A journal without groups.
    pub(super) fn format_redo(&mut self) {
        let Some(plan) = self.plan.point_in_time else { return };
        let mut journal = SimulatedDevice::new(plan.journal_size);
        let tail = RedoTail::default().encode(UUID);
        let block = Block::from_bytes(tail.as_slice().try_into().expect("a block"));
        TAIL_OFFSETS.into_iter().for_each(|offset| journal.prepare(offset / BLOCK_SIZE, &block));
        self.devices.redo = Some(journal);
    }

    /// Hands the journal to an engine that was just opened, durable as a driver makes it first.
    pub(super) fn attach_redo<E: Subject>(&mut self, engine: &mut E) -> Result<(), String> {
        if !E::GROWS {
            self.redo = None;
            return Ok(());
        }
        let (Some(plan), Some(journal)) = (self.plan.point_in_time, &mut self.devices.redo) else {
            return Ok(());
        };
        journal.make_all_durable();
        let FoundRedo { geometry, tail, groups } = find(journal)?;
        let settings = RedoSettings {
            uuid: UUID,
            geometry,
            volumes: (0..self.volumes.len()).map(volume_id).collect(),
            tail,
            groups,
            cut_every: plan.cut_every,
            zero: 0,
        };
        engine.attach_redo(self.now, settings);
        Ok(())
    }

    pub(super) fn place_write(
        &mut self,
        volume: VolumeId,
        extent: ByteExtent,
        version: Version,
        content: WriteContent,
    ) {
        if let Some(redo) = &mut self.redo {
            redo.instants.add(volume, extent, version, content);
        }
    }

    pub(super) fn acknowledge(&mut self, version: Version) {
        let Some(redo) = &mut self.redo else { return };
        redo.instants.acknowledge(version);
        let record = self.oracle.book().get(version).expect("a version of ours");
        redo.instants.note(self.now, record.acknowledged);
    }

    /// A request was issued, or ended.
    pub(super) fn note_tick(&mut self, tick: Tick) {
        if let Some(redo) = &mut self.redo {
            redo.instants.note(self.now, tick);
        }
    }

    /// Notes the last committed cut; now and then examines the origins, as they are and after a power cut.
    pub(super) fn watch_redo<E: Subject>(&mut self, host: &Host<E>) -> Result<(), String> {
        if host.engine.health() == CacheHealth::OutOfService {
            // The operator may write older blocks back.
            self.redo = None;
        }
        let (Some(redo), Some(plan)) = (&mut self.redo, self.plan.point_in_time) else { return Ok(()) };
        if let Some(committed) = host.engine.redo_committed() {
            redo.reported = redo.reported.max(committed);
        }
        if redo.random.below(10_000) >= plan.examined_permyriad {
            return Ok(());
        }
        self.examine()?;
        self.examine_after_power_cut()
    }

    /// Examines the origins and the journal, as a recovery without the cache device finds them.
    pub(super) fn examine(&mut self) -> Result<(), String> {
        let (Some(redo), Some(journal)) = (&self.redo, &self.devices.redo) else { return Ok(()) };
        if self.volumes.iter().any(|volume| self.oracle.is_distrusted(volume.volume)) {
            return Ok(());
        }
        self.summary.examined_instants += 1;
        redo.examine(journal, &self.devices.origins, &self.oracle)
            .map_err(|error| format!("without the cache device: {error}"))
    }

    fn examine_after_power_cut(&mut self) -> Result<(), String> {
        let (Some(redo), Some(journal)) = (&mut self.redo, &self.devices.redo) else { return Ok(()) };
        let unit = self.plan.atomic_unit;
        let (mut journal, mut origins) = (journal.clone(), self.devices.origins.clone());
        journal.cut_power(unit, &mut redo.random);
        origins.iter_mut().for_each(|origin| _ = origin.cut_power(unit, &mut redo.random));
        if self.volumes.iter().any(|volume| self.oracle.is_distrusted(volume.volume)) {
            return Ok(());
        }
        self.summary.examined_instants += 1;
        redo.examine(&journal, &origins, &self.oracle)
            .map_err(|error| format!("without the cache device, after a power cut: {error}"))
    }
}
