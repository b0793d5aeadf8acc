//! The hit-ratio curves of the volumes of a loop, from samples of the requests to the engine.

use kickcache_curve::curve::HitRatioCurve;
use kickcache_curve::sampler::LruSampler;
use kickcache_engine::request::Operation;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

const SAMPLES: u32 = 8_192;

#[derive(Default)]
pub(crate) struct Curves {
    volumes: Vec<Option<Box<LruSampler>>>,
}

impl Curves {
    pub(crate) fn add(&mut self, volume: VolumeId) {
        let at = usize::from(volume.get());
        if self.volumes.len() <= at {
            self.volumes.resize_with(at + 1, || None);
        }
        self.volumes[at] = Some(Box::new(LruSampler::new(SAMPLES)));
    }

    /// Counts the blocks of a read; a write or promotion only brings its blocks to the front.
    #[inline]
    pub(crate) fn note(&mut self, volume: VolumeId, operation: Operation, extent: ByteExtent) {
        let Some(Some(sampler)) = self.volumes.get_mut(usize::from(volume.get())) else { return };
        let blocks = extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE);
        match operation {
            Operation::Read => blocks.for_each(|block| sampler.count(block)),
            Operation::Write(_) | Operation::Promote => blocks.for_each(|block| sampler.touch(block)),
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => {}
        }
    }

    pub(crate) fn of(&self, volume: VolumeId) -> Option<HitRatioCurve> {
        Some(self.volumes.get(usize::from(volume.get()))?.as_ref()?.curve())
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::request::Durability;

    use super::*;

    #[test]
    fn reads_count_and_writes_bring_blocks_in() {
        let volume = VolumeId::new(1);
        let mut curves = Curves::default();
        curves.note(volume, Operation::Read, ByteExtent { start: 0, length: BLOCK_SIZE });
        assert!(curves.of(volume).is_none(), "of a volume that is not served");
        curves.add(volume);
        let mut note =
            |operation, start| curves.note(volume, operation, ByteExtent { start, length: 4 * BLOCK_SIZE });
        note(Operation::Write(Durability::Volatile), 0);
        note(Operation::Read, 2 * BLOCK_SIZE);
        note(Operation::Discard, 0);
        note(Operation::Flush, 0);
        let curve = curves.of(volume).unwrap();
        assert_eq!((curve.accesses(), curve.footprint_blocks()), (4, 6));
        assert!((curve.at(6).hit_ratio - 0.5).abs() < 1e-9, "two of the four were written before");
    }

    #[test]
    fn a_partial_block_is_a_block() {
        let volume = VolumeId::new(0);
        let mut curves = Curves::default();
        curves.add(volume);
        curves.note(volume, Operation::Read, ByteExtent { start: 512, length: 512 });
        curves.note(volume, Operation::Read, ByteExtent { start: 4_000, length: 512 });
        assert_eq!(curves.of(volume).unwrap().accesses(), 3);
    }
}
