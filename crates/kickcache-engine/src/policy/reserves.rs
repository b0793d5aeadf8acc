//! The private parts of the cache for each volume.

use crate::config::VOLUME_COUNT_MAX;
use crate::units::VolumeId;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reserves {
    blocks: [u64; VOLUME_COUNT_MAX],
}

impl Reserves {
    /// The requested numbers of blocks, each at most `most`; all reduced by the same factor if they exceed `most`
    /// together.
    pub(crate) fn new(wanted: impl Iterator<Item = (VolumeId, u64)>, most: u64) -> Reserves {
        let mut reserves = Reserves::default();
        wanted.for_each(|(volume, blocks)| reserves.blocks[usize::from(volume.get())] = blocks.min(most));
        let sum = reserves.sum();
        if sum > most { reserves.scaled(most, sum) } else { reserves }
    }

    /// The reserves of all volumes, multiplied by `part / whole` and rounded down.
    pub(crate) fn scaled(&self, part: u64, whole: u64) -> Reserves {
        Reserves { blocks: self.blocks.map(|blocks| blocks * part / whole) }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.blocks.iter().sum()
    }

    pub(crate) fn of(&self, volume: VolumeId) -> u64 {
        self.blocks.get(usize::from(volume.get())).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_requests_shrinks_to_the_supply() {
        let volume = VolumeId::new;
        let reserves =
            |wanted: [u64; 2], most| Reserves::new([volume(3), volume(0)].into_iter().zip(wanted), most);
        let found = reserves([100, 300], 400);
        assert_eq!([found.of(volume(3)), found.of(volume(0)), found.of(volume(1))], [100, 300, 0]);
        let found = reserves([100, 300], 100);
        assert_eq!(
            [found.of(volume(3)), found.of(volume(0))],
            [50, 50],
            "no more than the whole each, then divided"
        );
        assert!(reserves([u64::MAX, u64::MAX], 3 << 30).sum() <= 3 << 30);
    }
}
