//! The cases of the study.

use std::sync::Arc;

use crate::policy_study::load::Load;
use crate::ratio::share;

/// Passes of a loop; in a mixed load, about as many.
const PASSES: u64 = 20;
const LEARNING: u64 = 2;
const TENTHS: [u64; 4] = [11, 15, 20, 40];
/// [`Case::of_size`] makes no case for a cache with room for more than this share of a load's blocks.
const LARGE: f64 = 0.75;
/// Different blocks of skewed reads, for each block of the cache.
const SKEWED: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    Nothing,
    Loop,
    /// The working set changes at this access: for comparison, an empty cache begins there as well.
    Shift {
        at: usize,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    pub name: String,
    pub load: Arc<Load>,
    /// The capacity of the cache in blocks of the load.
    pub cache_blocks: u64,
    /// The first access that counts.
    pub counted_from: usize,
    /// The first access that no longer counts.
    pub counted_until: usize,
    pub watch: Watch,
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a load fits into memory")
}

impl Case {
    /// A load with a cache of this many of its blocks, from the beginning.
    pub fn whole(load: &Arc<Load>, cache_blocks: u64, size: &str) -> Case {
        Case {
            name: format!("{}, {size}", load.name),
            load: Arc::clone(load),
            cache_blocks,
            counted_from: 0,
            counted_until: load.accesses.len(),
            watch: Watch::Nothing,
        }
    }

    /// As [`Case::whole`]; `None` if the cache is too large for the load to compare policies.
    pub fn of_size(load: &Arc<Load>, cache_blocks: u64, size: &str) -> Option<Case> {
        let is_large = share(cache_blocks, load.footprint.max(1)) > LARGE;
        (!is_large).then(|| Case::whole(load, cache_blocks, size))
    }

    /// Loops that are longer than a cache of this many blocks, alone and mixed with skewed reads.
    pub fn loops(cache_blocks: u64) -> Vec<Case> {
        let mut cases = Vec::new();
        for tenths in TENTHS {
            let length = cache_blocks * tenths / 10;
            let times = format!("{}.{}x", tenths / 10, tenths % 10);
            let alone = Load::repeat(&format!("loop {times}"), length, PASSES);
            let others = cache_blocks * SKEWED;
            let mixed = Load::mixed(&format!("loop {times}, zipf 0.9"), length, others, PASSES);
            for load in [alone, mixed] {
                let learning = load.accesses.len() / index(PASSES) * index(LEARNING);
                let case = Case::whole(&Arc::new(load), cache_blocks, "");
                let name = case.load.name.clone();
                cases.push(Case { name, counted_from: learning, watch: Watch::Loop, ..case });
            }
        }
        cases
    }

    /// Shifts of the working set with a cache of this many blocks: counting covers the third and fourth
    /// capacity of accesses after them.
    pub fn shifts(cache_blocks: u64) -> Vec<Case> {
        let skewed = Load::skewed("zipf", cache_blocks * SKEWED, cache_blocks * 12);
        let repeat = |tenths: u64, passes| Load::repeat("loop", cache_blocks * tenths / 10, passes);
        let shifts = [
            ("zipf, then zipf elsewhere", &skewed, &skewed),
            ("loop 1.5x, then zipf", &repeat(15, PASSES), &skewed),
            ("loop 4.0x, then zipf", &repeat(40, PASSES), &skewed),
            ("loop 1.5x, then loop 0.5x", &repeat(15, PASSES), &repeat(5, PASSES)),
            ("zipf, then loop 0.5x", &skewed, &repeat(5, PASSES)),
        ];
        let case = |(name, before, after): (&str, &Load, &Load)| {
            let at = before.accesses.len();
            let case = Case::whole(&Arc::new(before.then(after, name)), cache_blocks, "");
            let counted_from = at + index(2 * cache_blocks);
            let counted_until = at + index(4 * cache_blocks);
            Case { name: name.into(), counted_from, counted_until, watch: Watch::Shift { at }, ..case }
        };
        shifts.into_iter().map(case).collect()
    }
}
