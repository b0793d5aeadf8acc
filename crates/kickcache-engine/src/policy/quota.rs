//! Shares of a scarce resource: half of it is divided among all volumes as exclusive reserves, the other half belongs
//! to any volume that needs it. Private parts of volumes are deducted first.

use crate::policy::reserves::Reserves;
use crate::units::{VolumeId, VolumeSet};

/// The reserves of all volumes together are one part in this many.
const RESERVED_PART: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quota {
    total: u64,
    /// The reserve of each volume, without its private part.
    reserve: u64,
    own: Reserves,
    volumes: VolumeSet,
}

impl Quota {
    pub(crate) fn new(total: u64, volumes: VolumeSet) -> Quota {
        Quota::with_own(total, volumes, Reserves::default())
    }

    /// Of `total`, this much is private to volumes.
    pub(crate) fn with_own(total: u64, volumes: VolumeSet, own: Reserves) -> Quota {
        let count = u64::from(volumes.bits().count_ones()).max(1);
        let reserve = total.saturating_sub(own.sum()) / RESERVED_PART / count;
        Quota { total, reserve, own, volumes }
    }

    /// The most that a volume may use, from the present uses of the other volumes.
    pub(crate) fn allowance(&self, volume: VolumeId, used: impl Fn(VolumeId) -> u64) -> u64 {
        let reserve = |volume| self.reserve + self.own.of(volume);
        let others = self.volumes.iter().filter(|other| *other != volume);
        let taken: u64 = others.map(|other| used(other).max(reserve(other))).sum();
        self.total.saturating_sub(taken).max(reserve(volume))
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
    fn a_quota_shrinks_with_others_but_not_below_its_reserve() {
        let quota = Quota::new(1_000, volumes(4));
        let own = VolumeId::new(2);
        let allowance = |used: [u64; 4]| quota.allowance(own, |volume| used[usize::from(volume.get())]);
        assert_eq!(allowance([0; 4]), 625, "the reserves of the others are theirs");
        assert_eq!(allowance([125, 0, 600, 125]), 625);
        assert_eq!(allowance([325, 0, 0, 0]), 425);
        assert_eq!(allowance([2_000, 125, 0, 125]), 125);
    }

    #[test]
    fn reserved_pages_are_not_used_by_others() {
        let own = Reserves::new([(VolumeId::new(1), 600)].into_iter(), 997);
        let quota = Quota::with_own(1_000, volumes(2), own);
        let allowance = |volume, used: u64| quota.allowance(VolumeId::new(volume), |_| used);
        assert_eq!((allowance(0, 0), allowance(0, 800)), (300, 200));
        assert_eq!((allowance(1, 0), allowance(1, 300)), (900, 700));
    }

    #[test]
    fn allowances_that_are_kept_never_exceed_the_whole() {
        allowances_fit(Quota::new(997, volumes(3)));
        let own = Reserves::new([(VolumeId::new(1), 500), (VolumeId::new(2), 90)].into_iter(), 997);
        allowances_fit(Quota::with_own(997, volumes(3), own));
    }

    fn allowances_fit(quota: Quota) {
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
