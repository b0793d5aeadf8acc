//! How much of something that is scarce a volume may take: half of it is divided among all volumes, a reserve for each that
//! nobody else can take; the other half belongs to whoever needs it.

use crate::units::{VolumeId, VolumeSet};

/// The reserves of all volumes together are one part in this many of the whole.
const RESERVED_PART: u64 = 2;

/// Something that volumes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quota {
    total: u64,
    reserve: u64,
    volumes: VolumeSet,
}

impl Quota {
    pub(crate) fn new(total: u64, volumes: VolumeSet) -> Quota {
        let count = u64::from(volumes.bits().count_ones()).max(1);
        Quota { total, reserve: total / RESERVED_PART / count, volumes }
    }

    /// The most that a volume may have, from what each of them has.
    pub(crate) fn allowance(&self, volume: VolumeId, used: impl Fn(VolumeId) -> u64) -> u64 {
        let others = self.volumes.iter().filter(|other| *other != volume);
        // Each of the others has its reserve, or more of what is shared.
        let taken: u64 = others.map(|other| used(other).max(self.reserve)).sum();
        self.total.saturating_sub(taken).max(self.reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(count: u8) -> VolumeSet {
        (0..count).map(VolumeId::new).collect()
    }

    #[test]
    fn a_volume_alone_may_have_everything() {
        let quota = Quota::new(1_000, volumes(1));
        assert_eq!(quota.allowance(VolumeId::new(0), |_| 700), 1_000);
    }

    #[test]
    fn what_a_volume_may_have_shrinks_with_what_others_took_but_not_below_its_reserve() {
        let quota = Quota::new(1_000, volumes(4));
        let own = VolumeId::new(2);
        let allowance = |used: [u64; 4]| quota.allowance(own, |volume| used[usize::from(volume.get())]);
        assert_eq!(allowance([0; 4]), 625, "the reserves of the others are theirs");
        assert_eq!(allowance([125, 0, 600, 125]), 625);
        assert_eq!(allowance([325, 0, 0, 0]), 425);
        assert_eq!(allowance([2_000, 125, 0, 125]), 125);
    }

    #[test]
    fn allowances_that_are_kept_never_exceed_the_whole() {
        let quota = Quota::new(997, volumes(3));
        let mut used = [0u64; 3];
        for round in 0..4_000u64 {
            let number = usize::try_from(round * 7 % 3).unwrap();
            let volume = VolumeId::new(u8::try_from(number).unwrap());
            if used[number] < quota.allowance(volume, |volume| used[usize::from(volume.get())]) {
                used[number] += 1;
            } else if round % 5 == 0 {
                used[number] = 0;
            }
            assert!(used.iter().sum::<u64>() <= 997);
        }
    }
}
