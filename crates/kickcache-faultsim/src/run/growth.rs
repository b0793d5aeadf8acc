//! The cache device is extended while an engine serves: the steps of the operator and of the daemon.

use kickcache_engine::engine::Phase;
use kickcache_engine::format::batch::{BatchEntry, BatchHeader};
use kickcache_engine::format::durable::Durable;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::growth::{FoundSegment, generation_found, size_max};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::queue::Queue;
use kickcache_engine::request::Durability;
use kickcache_engine::stats::{CacheHealth, GrowthPhase};
use kickcache_engine::time::Duration;
use kickcache_engine::units::{
    BLOCK_BYTES, BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Generation, Location, SegmentIndex, Sequence,
    VolumeId,
};

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::growing::{Growing, Step};
use crate::host::Host;
use crate::payload::Payload;
use crate::plan::growth::Growth;
use crate::queue::Event;
use crate::run::Simulation;
use crate::subject::Subject;
use crate::superblock::superblock;

/// After this many growths in a run, no growth follows another one at once.
const GROWTHS_MAX: u64 = 200;

impl Simulation {
    pub(super) fn schedule_growth(&mut self) {
        if let Some(growth) = self.plan.growth
            && self.random.chance(growth.permille)
        {
            let pause = Duration::from_nanos(self.random.below(growth.within.as_nanos()));
            self.queue.push(self.now.plus(pause), Event::Grow);
        }
    }

    pub(super) fn grow<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let Some(growing) = &mut self.growing else { return self.extend(host) };
        let cache = &mut self.devices.cache;
        match growing.step {
            Step::Preparing => {}
            Step::Writing(ticket) => {
                cache.complete_write(ticket, Durability::Volatile);
                growing.step = Step::Flushing(cache.start_flush());
            }
            Step::Flushing(ticket) => {
                cache.complete_flush(ticket);
                if growing.left.is_empty() {
                    self.growing = None;
                    self.summary.grown_caches += 1;
                    self.note(|| "the cache device has grown".to_owned());
                    host.use_grown(self.now);
                    let is_repeated = self.plan.growth.is_some_and(|growth| growth.is_repeated);
                    if is_repeated && self.summary.grown_caches < GROWTHS_MAX {
                        self.schedule_step();
                    }
                    return Ok(());
                }
                self.write_copy();
            }
        }
        self.schedule_step();
        Ok(())
    }

    fn schedule_step(&mut self) {
        let Some(Growth { step_max, .. }) = self.plan.growth else { return };
        let pause = Duration::from_nanos(self.random.below(step_max.as_nanos()));
        self.queue.push(self.now.plus(pause), Event::Grow);
    }

    fn write_copy(&mut self) {
        let Some(growing) = &mut self.growing else { return };
        let Some(start) = growing.left.pop() else { return };
        let bytes = growing.superblock.encode();
        let extent = ByteExtent { start, length: SUPERBLOCK_SIZE as u64 };
        let payload = Payload::new(extent, |number| {
            let at = usize::try_from(number * BLOCK_SIZE - start).expect("a superblock is small");
            Block::from_bytes(bytes[at..at + BLOCK_BYTES].try_into().expect("a block"))
        });
        growing.step = Step::Writing(self.devices.cache.write(start, payload));
    }

    /// No growth begins if the engine is not running with a good cache device, the clients have finished, or
    /// the device has its largest size.
    fn extend<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        let Some(Growth { most, is_stale, .. }) = self.plan.growth else { return Ok(()) };
        if host.engine.phase() != Phase::Running
            || host.engine.health() != CacheHealth::Good
            || self.budget == 0
        {
            return Ok(());
        }
        let mut grown = superblock(&self.devices.cache).map_err(|error| error.to_string())?;
        let old = grown.geometry;
        // An earlier life may have extended the device without using the whole extension.
        let least = self.devices.cache.size().max(old.device_size + old.segment_size);
        let size = (least + self.random.below(most)).min(size_max(&old));
        if size < least {
            return Ok(());
        }
        let known = self.devices.cache.size();
        self.devices.cache.extend(size);
        if is_stale && known == old.device_size {
            self.leave_old_structures(&grown, size);
        }
        let found = find_generation(&self.devices.cache, &grown, size);
        grown.grow(size, found).map_err(|error| error.to_string())?;
        grown.epoch += 1;
        self.note(|| format!("the cache device is extended to {size} bytes, {found:?}"));
        if let Err(error) = host.grow(self.now, &grown) {
            return if E::KEEPS_NEIGHBOURS { Err(error) } else { Ok(()) };
        }
        let mut left = SUPERBLOCK_OFFSETS.to_vec();
        if self.random.chance(500) {
            left.reverse();
        }
        self.growing = Some(Growing { superblock: grown, step: Step::Preparing, left });
        Ok(())
    }

    pub(super) fn poll_growth<E: Subject>(&mut self, host: &Host<E>) {
        let is_due = self.growing.as_ref().is_some_and(|growing| matches!(growing.step, Step::Preparing))
            && host.engine.growth() != GrowthPhase::Preparing;
        if is_due {
            self.write_copy();
            self.schedule_step();
        }
    }

    /// Completes a superblock that is being written; drops a growth if its superblock is not being written yet.
    pub(super) fn end_growth<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        if self.growing.as_ref().is_some_and(|growing| matches!(growing.step, Step::Preparing)) {
            self.growing = None;
        }
        self.run(host, None, |life, _| life.growing.is_none())?;
        Ok(())
    }

    /// Stores batches, as if from earlier lives of this device, in segments that the superblock does not count.
    fn leave_old_structures(&mut self, old: &Superblock, size: u64) {
        let mut larger = old.clone();
        if larger.grow(size, None).is_err() {
            return;
        }
        let geometry = larger.geometry;
        for segment in (old.geometry.segment_count..geometry.segment_count).map(SegmentIndex::new) {
            let newest = 1 + self.random.below(3);
            for start in (0..geometry.batch_blocks() - 1).step_by(2) {
                let block = Block::Noise(self.random.next_u64());
                let volume = VolumeId::new(u8::try_from(self.random.index(self.volumes.len())).expect("few"));
                let blocks = self.plan.origin_sizes[usize::from(volume.get())] / BLOCK_SIZE;
                let key = BlockKey::new(volume, BlockIndex::new(self.random.below(blocks)));
                let generation = if start == 0 { newest } else { 1 + self.random.below(newest) };
                let header = BatchHeader {
                    uuid: old.uuid,
                    segment,
                    generation: Generation::new(u32::try_from(generation).expect("small")),
                    sequence: Sequence::new((1 << 30) + u64::from(start)),
                    start,
                    queue: Queue::Probation,
                    durable: Durable::NOTHING,
                    entries: vec![BatchEntry { key: Some(key), dirty: true, checksum: block.checksum() }],
                };
                let place = geometry.byte_offset(geometry.first_location(segment).plus(start)) / BLOCK_SIZE;
                let bytes = header.encode();
                let header = Block::from_bytes(bytes.as_slice().try_into().expect("a block"));
                self.devices.cache.prepare(place, &header);
                self.devices.cache.prepare(place + 1, &block);
            }
        }
    }
}

/// The highest generation in the part that a device grows into, as the daemon determines it.
fn find_generation(cache: &SimulatedDevice, old: &Superblock, size: u64) -> Option<Generation> {
    let mut larger = old.clone();
    larger.grow(size, None).ok()?;
    let geometry: Geometry = larger.geometry;
    let read = |location: Location, blocks: u32| {
        let start = geometry.byte_offset(location);
        cache.bytes(ByteExtent { start, length: u64::from(blocks) * BLOCK_SIZE })
    };
    let found = (old.geometry.segment_count..geometry.segment_count).map(|segment| {
        let first = geometry.first_location(SegmentIndex::new(segment));
        let summary = read(first.plus(geometry.batch_blocks()), geometry.summary_blocks());
        let found = FoundSegment { first: &read(first, 1), summary: &summary };
        generation_found(&geometry, old.uuid, &found)
    });
    found.max().flatten()
}
