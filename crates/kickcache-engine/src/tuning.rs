//! Constants of the policies that a study varies; compiled in with the feature `tuning` only.

/// A constant, or with the feature `tuning` what a study made of it.
#[cfg(feature = "tuning")]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        crate::tuning::value_of(crate::tuning::Tunable::$name, $constant)
    };
}

/// A constant, or with the feature `tuning` what a study made of it.
#[cfg(not(feature = "tuning"))]
macro_rules! tuned {
    ($name:ident, $constant:expr) => {
        $constant
    };
}

#[cfg(feature = "tuning")]
pub use tunable::{Tunable, tune};

#[cfg(feature = "tuning")]
pub(crate) use tunable::value_of;

#[cfg(feature = "tuning")]
mod tunable {
    use core::sync::atomic::{AtomicU64, Ordering};

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

    /// Makes a constant that many percent of what it is, in every engine of this process.
    pub fn tune(tunable: Tunable, percent: u64) {
        PERCENT[tunable as usize].store(percent, Ordering::SeqCst);
    }

    /// What a constant is now: rounded, at least 1.
    pub(crate) fn value_of<T: TryFrom<u64> + Copy>(tunable: Tunable, constant: T) -> T
    where
        u64: TryFrom<T>,
    {
        let percent = PERCENT[tunable as usize].load(Ordering::Relaxed);
        if percent == 100 {
            return constant;
        }
        let value = u64::try_from(constant).unwrap_or(0) * percent;
        T::try_from(((value + 50) / 100).max(1)).unwrap_or(constant)
    }
}
