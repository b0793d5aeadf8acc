//! Volumes that are written back in cuts: their redo journal, and the examination of the origins without the cache
//! device.

use kickcache_engine::error::Error;
use kickcache_engine::format::redo::{RedoGeometry, RedoTail, TAIL_OFFSETS};
use kickcache_engine::redo::RedoSettings;
use kickcache_engine::redo::recovery::{FoundGroup, committed_groups};
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, VolumeId};
use kickcache_random::Random;

use crate::content::{Block, Version};
use crate::device::SimulatedDevice;
use crate::host::Host;
use crate::index::index;
use crate::oracle::Oracle;
use crate::oracle::book::Tick;
use crate::oracle::instants::Instants;
use crate::oracle::write_content::WriteContent;
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

const UUID: [u8; 16] = [0x5A; 16];

/// The redo journal of a run, with the history that its groups are compared with.
pub(super) struct Redo {
    pub(super) instants: Instants,
    /// The instant of the last cut that was reported as committed, in nanoseconds.
    reported: u64,
    random: Random,
}

/// What the journal has: its tail, and its committed groups.
struct Found {
    geometry: RedoGeometry,
    tail: RedoTail,
    groups: Vec<FoundGroup>,
}

fn find(journal: &SimulatedDevice) -> Result<Found, String> {
    let geometry = RedoGeometry::for_device(journal.size()).ok_or("the journal is too small")?;
    let block = BLOCK_BYTES as u64;
    let [first, second] = TAIL_OFFSETS.map(|start| journal.bytes(ByteExtent { start, length: block }));
    let tail = RedoTail::decode([&first, &second], UUID).ok_or("the journal has no tail")?;
    let mut read = |start: u64, length: usize| {
        Ok::<_, Error>(journal.bytes(ByteExtent { start, length: length as u64 }))
    };
    let groups = committed_groups(UUID, geometry, tail, &mut read).map_err(|error| error.to_string())?;
    Ok(Found { geometry, tail, groups })
}

/// Completes the committed groups on the origins; returns the instant of the last one, in nanoseconds.
fn recover(journal: &SimulatedDevice, origins: &mut [Vec<Block>]) -> Result<u64, String> {
    let Found { geometry, tail, groups } = find(journal)?;
    for group in &groups {
        for (chunk, blocks) in group.chunks.iter().enumerate() {
            for (at, block) in blocks.iter().enumerate() {
                let place = group.byte_offset(geometry, chunk, at) / BLOCK_SIZE;
                let volume = usize::from(block.key.volume().get());
                origins[volume][index(block.key.block().get())] = journal.blocks()[index(place)].clone();
            }
        }
    }
    Ok(groups.last().map_or(tail.instant, |group| group.instant))
}

impl Redo {
    pub(super) fn new(random: Random) -> Redo {
        Redo { instants: Instants::default(), reported: 0, random }
    }

    fn examine(
        &self,
        journal: &SimulatedDevice,
        origins: &[SimulatedDevice],
        oracle: &Oracle,
    ) -> Result<(), String> {
        let mut blocks: Vec<Vec<Block>> = origins.iter().map(|origin| origin.blocks().to_vec()).collect();
        let instant = recover(journal, &mut blocks)?;
        if instant < self.reported {
            return Err(format!("the journal ends at {instant}, and {} was reported", self.reported));
        }
        let find = |volume: VolumeId, block: u64| &blocks[usize::from(volume.get())][index(block)];
        let first = |volume, block| oracle.first(volume, block);
        self.instants.judge(oracle.book(), Instant::from_nanos(instant), find, first)
    }
}

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
        let (Some(plan), Some(journal)) = (self.plan.point_in_time, &mut self.devices.redo) else {
            return Ok(());
        };
        journal.make_all_durable();
        let Found { geometry, tail, groups } = find(journal)?;
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
