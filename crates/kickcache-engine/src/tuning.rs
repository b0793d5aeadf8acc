//! Constants of the policies that a study varies: the policies ask only with the feature `tuning`.

/// A constant, or with the feature `tuning` what a study made of it.
#[cfg(any(test, feature = "tuning"))]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        crate::tuning::value_of(crate::tuning::Tunable::$name, $constant)
    };
}

/// A constant, or with the feature `tuning` what a study made of it.
#[cfg(not(any(test, feature = "tuning")))]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        $constant
    };
}

use core::sync::atomic::{AtomicU64, Ordering};

/// Whether the policies ask what a study made of their constants.
pub const IS_ON: bool = cfg!(feature = "tuning");

macro_rules! tunables {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A constant of a policy.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Tunable {
            $($(#[doc = $doc])* $name,)*
        }

        impl Tunable {
            /// All of them.
            pub const ALL: &[Tunable] = &[$(Tunable::$name),*];

            /// What it says.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Tunable::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

tunables! {
    /// probation's share at first, one in
    Start,
    /// what left just now, of the cache one in
    JustLeft,
    /// what left probation and is remembered, tenths of the cache
    Noted,
    /// blocks by which a ghost hit moves probation's target
    Step,
    /// hits after which a block moves to main
    PromotionHits,
    /// hot part with which a segment of main stays in place, %
    Keep,
    /// segments that one search looks at
    Search,
    /// live part up to which a segment is cleaned first, %
    DeadFirst,
    /// the same while copies are few, %
    DeadFirstFew,
    /// copies are few below this part of what came in, %
    Copies,
    /// copies count half after what comes in, of the cache one in
    CopiesShare,
    /// most that is copied of a segment in its turn, %
    Carried,
    /// the same while copies are few, %
    CarriedFew,
    /// main's oldest segment is stale with fewer hot blocks, %
    Stale,
    /// and up to so many misses for a hit
    StaleMisses,
    /// main is held with a lead of so many eighths of a miniature
    Lead,
    /// lead over what comes back soon, of that one in
    SoonLead,
    /// what is held is of no use behind by one in
    Behind,
    /// part of the usual hits that does not count, one in
    Margin,
    /// one miss in so many is taken in while main is held
    TakenIn,
    /// a held main is gone round once for so many caches
    HoldRound,
    /// counts of what missed are one less after so many caches
    HoldTurn,
    /// cold part with which a segment of a held main is emptied, %
    HoldCold,
    /// hits for each miss that prove a shift
    ShiftHits,
    /// of them at most one in so many is an old block's
    ShiftNew,
}

const COUNT: usize = Tunable::ALL.len();
/// What a constant is multiplied with, in percent.
static PERCENT: [AtomicU64; COUNT] = [const { AtomicU64::new(100) }; COUNT];

/// Makes a constant that many percent of what it is, in every engine of this process, if [`IS_ON`].
pub fn tune(tunable: Tunable, percent: u64) {
    PERCENT[tunable as usize].store(percent, Ordering::SeqCst);
}

#[cfg(any(test, feature = "tuning"))]
/// What a constant is now: rounded, at least 1.
pub(crate) fn value_of<T: TryFrom<u64> + Copy>(tunable: Tunable, constant: T) -> T
where
    u64: TryFrom<T>,
{
    match PERCENT[tunable as usize].load(Ordering::Relaxed) {
        100 => constant,
        percent => part(constant, percent),
    }
}

#[cfg(any(test, feature = "tuning"))]
fn part<T: TryFrom<u64> + Copy>(constant: T, percent: u64) -> T
where
    u64: TryFrom<T>,
{
    let value = u64::try_from(constant).unwrap_or(0) * percent;
    T::try_from(((value + 50) / 100).max(1)).unwrap_or(constant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_and_never_nothing() {
        assert_eq!((part(60_u32, 50), part(60_u32, 150)), (30, 90));
        assert_eq!((part(7_u64, 50), part(7_i64, 150)), (4, 11));
        assert_eq!((part(1_u8, 50), part(2_u8, 150)), (1, 3));
    }

    #[test]
    fn what_nobody_tuned_is_what_it_is() {
        assert_eq!(Tunable::Step.meaning(), "blocks by which a ghost hit moves probation's target");
        for tunable in Tunable::ALL {
            assert_eq!(value_of(*tunable, 17_u64), 17);
        }
    }
}
