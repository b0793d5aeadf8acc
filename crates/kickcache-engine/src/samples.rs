//! A few clean blocks with their checksums, for the recognition of an origin.

use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::engine::Engine;
use crate::units::{BlockIndex, BlockKey, Checksum, Location, SegmentIndex, VolumeId};

/// About the most slots that one call examines.
const SLOTS_MAX: u64 = 1 << 20;

/// A block with the same data on the origin and in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The block.
    pub block: BlockIndex,
    /// CRC32C of its data.
    pub checksum: Checksum,
}

impl Engine {
    /// Clean blocks of a volume, `count` at most; none if the cache device is out of service. Up to half are blocks
    /// that the origin has stored last, which an older state of it lacks. They are valid until the origin receives a
    /// write that is submitted later.
    pub fn clean_samples(&self, volume: VolumeId, count: u32) -> Vec<Sample> {
        let state = &self.state;
        if state.device.is_out_of_service() || count == 0 {
            // Writes bypass a cache device out of service, so that its clean copies may be outdated.
            return Vec::new();
        }
        let mut samples = self.last_given(volume, count / 2);
        let rest =
            self.spread(volume, count - u32::try_from(samples.len()).expect("not more than requested"));
        samples.extend(rest);
        samples.sort_unstable_by_key(|sample| sample.block);
        samples.dedup();
        samples
    }

    /// Clean blocks among the blocks that the origin has stored last and durably.
    fn last_given(&self, volume: VolumeId, count: u32) -> Vec<Sample> {
        let state = &self.state;
        let Some(found) = state.volumes.find(volume) else { return Vec::new() };
        let mut samples: Vec<Sample> = Vec::new();
        for block in found.flush.witnesses.newest_first() {
            if samples.len() == count as usize {
                break;
            }
            let location = state.cache.find(BlockKey::new(volume, block));
            let sample = location.and_then(|location| self.clean_sample(volume, location));
            samples.extend(sample.filter(|sample| !samples.contains(sample)));
        }
        samples
    }

    fn spread(&self, volume: VolumeId, count: u32) -> Vec<Sample> {
        let state = &self.state;
        let segments = state.cache.segments().iter();
        let used: Vec<SegmentIndex> = segments
            .filter(|(_, segment)| segment.live > segment.not_clean)
            .map(|(index, _)| index)
            .collect();
        let count = u64::from(count);
        let slots = used.len() as u64 * u64::from(state.cache.geometry().batch_blocks());
        let look = |number: u64| {
            let (start, end) = (slots * number / count, slots * (number + 1) / count);
            let mut places = start..end.min(start + SLOTS_MAX / count);
            places.find_map(|place| self.clean_sample(volume, self.nth_location(&used, place)))
        };
        (0..count).filter_map(look).collect()
    }

    fn nth_location(&self, segments: &[SegmentIndex], number: u64) -> Location {
        let geometry = self.state.cache.geometry();
        let each = u64::from(geometry.batch_blocks());
        let segment = segments[usize::try_from(number / each).expect("it is below their number")];
        geometry.first_location(segment).plus(u32::try_from(number % each).expect("locations have 32 bits"))
    }

    fn clean_sample(&self, volume: VolumeId, location: Location) -> Option<Sample> {
        let slots = self.state.cache.slots();
        let key = slots.key(location);
        let is_one = slots.state(location) == SlotState::Clean && key.volume() == volume;
        is_one.then(|| Sample { block: key.block(), checksum: slots.checksum(location) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blank_device;
    use crate::config::{Mode, OriginKind};
    use crate::scene::Scene;

    fn blocks(scene: &Scene, count: u32) -> Vec<u64> {
        let samples = scene.engine.clean_samples(VolumeId::new(0), count);
        assert!(samples.iter().all(|sample| sample.checksum == blank_device::checksums(1)[0]));
        let mut blocks: Vec<u64> = samples.iter().map(|sample| sample.block.byte_offset() / 4096).collect();
        blocks.sort_unstable();
        blocks
    }

    #[test]
    fn only_flushed_blocks_are_samples_of_the_origin() {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..8).for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        assert!(blocks(&scene, 100_000).is_empty(), "all of it is dirty");
        scene.drain();
        assert_eq!(blocks(&scene, 100_000), (0..8).collect::<Vec<_>>());
        scene.write(3 * 4096, 4096).0.unwrap();
        assert_eq!(blocks(&scene, 100_000), [0, 1, 2, 4, 5, 6, 7]);
        assert!(
            scene.engine.clean_samples(VolumeId::new(1), 8).is_empty(),
            "blocks of other volumes do not count"
        );
    }

    #[test]
    fn a_few_samples_come_from_everywhere() {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..1024).for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        scene.drain();
        let found = blocks(&scene, 16);
        assert!((4..=16).contains(&found.len()), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] < 512), "{found:?}");
    }

    #[test]
    fn recent_writes_to_the_origin_are_sampled_first() {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..1024).for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        scene.drain();
        let last = [77, 400, 401, 902];
        last.iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        scene.drain();
        let found = blocks(&scene, 16);
        assert!(last.iter().all(|block| found.contains(block)), "{found:?}");
        assert!(found.len() <= 16 && found[0] < 77, "and some of the others: {found:?}");
        scene.write(400 * 4096, 4096).0.unwrap();
        assert!(!blocks(&scene, 16).contains(&400), "the origin lacks it now");
    }

    /// A write that an origin acknowledged as durable needs no flush to count.
    #[test]
    fn write_around_samples_written_and_read_origin_blocks() {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteAround);
        (0..512).for_each(|block| scene.read(block * 4096, 4096).0.unwrap());
        for block in [300, 7] {
            scene.write(block * 4096, 4096).0.unwrap();
            scene.read(block * 4096, 4096).0.unwrap();
        }
        assert_eq!(scene.not_clean(), (0, 0));
        let found = blocks(&scene, 8);
        assert!(found.contains(&300) && found.contains(&7), "{found:?}");
        let seen = scene.flush().1;
        assert!(!seen.contains(&"origin flush".into()), "no flush is needed: {seen:?}");
    }
}
