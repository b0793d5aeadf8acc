//! Constants of the policies that a study varies.

/// A constant, or with the feature `tuning` the value that a study set.
#[cfg(any(test, feature = "tuning"))]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        crate::tuning::value_of(crate::tuning::Tunable::$name, $constant)
    };
}

/// A constant, or with the feature `tuning` the value that a study set.
#[cfg(not(any(test, feature = "tuning")))]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        $constant
    };
}

use core::sync::atomic::{AtomicUsize, Ordering};

/// Whether the policies use the values that a study set.
pub const IS_ON: bool = cfg!(feature = "tuning");

macro_rules! tunables {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A constant of a policy.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Tunable {
            $($(#[doc = $doc])* $name,)*
        }

        impl Tunable {
            /// All constants.
            pub const ALL: &[Tunable] = &[$(Tunable::$name),*];

            /// Its description.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Tunable::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

tunables! {
    /// initial size of probation: the cache divided by this
    Start,
    /// just dropped blocks that are remembered: the cache divided by this
    JustLeft,
    /// blocks dropped from probation, or rejected, that are remembered, in tenths of the cache
    Noted,
    /// blocks by which a ghost hit moves probation's target
    Step,
    /// hits after which a block of probation moves to main
    PromotionHits,
    /// share of hot blocks above which a segment of main stays in place, %
    Keep,
    /// segments that one search examines
    Search,
    /// share of live blocks up to which a segment is cleaned first while copies are many, %
    DeadFirst,
    /// share of live blocks up to which a segment is cleaned first while copies are few, %
    DeadFirstFew,
    /// copies are few below this share of the admitted blocks, %
    Copies,
    /// admitted blocks after which earlier counts are halved: the cache divided by this
    CopiesShare,
    /// largest share that is copied from a segment in its turn while copies are many, and in miniatures, %
    Carried,
    /// largest share that is copied from a segment in its turn while copies are few, %
    CarriedFew,
    /// share of hot blocks below which main's oldest segment is stale, %
    Stale,
    /// misses per hit up to which main's oldest segment may be stale
    StaleMisses,
    /// lead in hits that freezes main, in eighths of a miniature's blocks
    Lead,
    /// lead over soon reused blocks: the lead divided by this
    SoonLead,
    /// frozen blocks are useless at a deficit of the lead divided by this
    Behind,
    /// one in this many hits of the usual miniature counts against a freeze
    Margin,
    /// one miss in this many is admitted while main is frozen
    TakenIn,
    /// a frozen main is walked once per this many capacities of requests
    HoldRound,
    /// counts of misses decrease by one per this many capacities of requests
    HoldTurn,
    /// share of cold blocks from which a segment of a frozen main is emptied, %
    HoldCold,
    /// hits per miss that prove a shift of the working set early
    ShiftHits,
    /// a shift is proven early only if at most one hit in this many is on an older block
    ShiftNew,
}

impl Tunable {
    /// The maximum of the value: 95 % for a share of a segment, because not all of a segment may be kept.
    const fn most(self) -> u64 {
        let is_of_a_segment = matches!(
            self,
            Tunable::Keep
                | Tunable::DeadFirst
                | Tunable::DeadFirstFew
                | Tunable::Carried
                | Tunable::CarriedFew
                | Tunable::Stale
                | Tunable::HoldCold
        );
        if is_of_a_segment { 95 } else { u64::MAX }
    }

    /// Its value at this percentage.
    pub fn at(self, percent: usize) -> u64 {
        part(CONSTANT[self as usize].load(Ordering::Relaxed) as u64, percent as u64, self.most())
    }
}

const COUNT: usize = Tunable::ALL.len();
static CONSTANT: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
static PERCENT: [AtomicUsize; COUNT] = [const { AtomicUsize::new(100) }; COUNT];

/// Sets a constant to this percentage of its value, in every engine of this process, if [`IS_ON`] or in unit tests.
pub fn tune(tunable: Tunable, percent: usize) {
    PERCENT[tunable as usize].store(percent, Ordering::SeqCst);
}

#[cfg(any(test, feature = "tuning"))]
pub(crate) fn value_of<T: TryFrom<u64> + Copy>(tunable: Tunable, constant: T) -> T
where
    u64: TryFrom<T>,
{
    let value = u64::try_from(constant).unwrap_or(0);
    let noted = &CONSTANT[tunable as usize];
    if noted.load(Ordering::Relaxed) as u64 != value {
        noted.store(usize::try_from(value).unwrap_or(0), Ordering::Relaxed);
    }
    match PERCENT[tunable as usize].load(Ordering::Relaxed) {
        100 => constant,
        percent => T::try_from(part(value, percent as u64, tunable.most())).unwrap_or(constant),
    }
}

fn part(constant: u64, percent: u64, most: u64) -> u64 {
    ((constant * percent + 50) / 100).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_and_never_zero() {
        let parts = |constant| [50, 150].map(|percent| part(constant, percent, 95));
        assert_eq!([60, 7, 1, 70].map(parts), [[30, 90], [4, 11], [1, 2], [35, 95]]);
        assert_eq!((Tunable::Keep.most(), Tunable::Copies.most()), (95, u64::MAX));
    }

    #[test]
    fn defaults_apply_without_tuning() {
        assert_eq!(Tunable::Step.meaning(), "blocks by which a ghost hit moves probation's target");
        for tunable in Tunable::ALL {
            assert_eq!((value_of(*tunable, 17_u64), value_of(*tunable, 17_u8)), (17, 17));
        }
    }
}
