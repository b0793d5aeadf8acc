//! smq, the policy of dm-cache: which misses are promoted, and which blocks are demoted for these.
//!
//! Leaves out: hints of an earlier life, and writeback alongside other work of Linux 4.11.

use kickcache_engine::time::Instant;

use crate::cache_model::block_state::BlockState;
use crate::cache_model::dm_cache::age::{Age, Victims};
use crate::cache_model::dm_cache::levels::{End, Entry, LEVELS, Levels, Top};

const NONE: u32 = u32::MAX;
const SECOND: u64 = 1_000_000_000;
/// Blocks of the cache that a block of the hotspot queue covers, at most.
const HOTSPOT_SHARE: u64 = 16;
/// Seconds of a period of demotion: blocks that were used in the last one or two periods may stay.
const DEMOTE_PERIOD: u64 = 60;
/// Seconds of a period of writeback: blocks that were used in the last one or two periods may stay dirty.
const WRITEBACK_PERIOD: u64 = 10;
/// Levels of the threshold below the top in 4.11, at full confidence in a full cache, by sixteenths of the
/// hit ratio.
const TABLE: [u8; 17] = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1];

/// Entries that were put at a tail in the present or the last period are after a sentinel.
#[derive(Clone, Copy, Debug)]
struct Period {
    seconds: u64,
    number: u32,
    ends: Instant,
}

impl Period {
    fn new(seconds: u64) -> Period {
        Period { seconds, number: 2, ends: Instant::ZERO }
    }

    fn tick(&mut self, now: Instant) {
        if now >= self.ends {
            self.number += 1;
            self.ends = Instant::from_nanos(now.as_nanos() + self.seconds * SECOND);
        }
    }

    fn guarded_from(&self) -> u32 {
        self.number - 1
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writebacks {
    Any,
    /// Blocks that were not used for 10 to 20 seconds.
    Rested,
}

/// Accesses of a period: hits are those to entries in the highest quarter of the levels, misses all others.
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    hits: u64,
    misses: u64,
}

impl Statistics {
    fn count(&mut self, level: u8) {
        if level >= LEVELS * 3 / 4 { self.hits += 1 } else { self.misses += 1 }
    }

    /// Hits in 1/16 of all accesses, rounded down; 0 without accesses.
    fn sixteenths(&self) -> u64 {
        (self.hits * 16).checked_div(self.hits + self.misses).unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Confidence {
    Poor,
    Fair,
    Well,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    Read,
    Write,
    WholeWrite,
}

#[derive(Clone, Debug)]
pub(super) struct Smq {
    age: Age,
    entries: Vec<Entry>,
    clean: Levels,
    dirty: Levels,
    /// The cache period in which a cached block was last hit while it was in a queue.
    hit_in: Vec<u32>,
    free: Vec<u32>,
    cache_statistics: Statistics,
    cache_period: u32,
    cache_period_ends: Instant,
    demotes: Period,
    writes_back: Period,
    hotspots: Hotspots,
    /// The least hotspot level of a missed block that is promoted; in 4.11 a write needs two levels more. A write of a
    /// whole block needs none while a block of the cache is free.
    threshold: u8,
}

#[derive(Clone, Debug)]
struct Hotspots {
    entries: Vec<Entry>,
    levels: Levels,
    blocks: u64,
    of_block: Vec<u32>,
    block_of: Vec<u32>,
    hit_in: Vec<u32>,
    used: u32,
    statistics: Statistics,
    tick: u32,
    period_ends: Instant,
    jump: u8,
}

impl Hotspots {
    fn new(cache_blocks: u32, origin_blocks: u64) -> Hotspots {
        let count = (cache_blocks / 4).max(1024);
        let mut blocks = HOTSPOT_SHARE;
        while blocks > 1 && blocks * u64::from(count) > origin_blocks {
            blocks /= 2;
        }
        let in_top = (count / 64).min(cache_blocks / u32::try_from(blocks).expect("at most 16"));
        let of_block = usize::try_from(origin_blocks.div_ceil(blocks)).expect("fits the address space");
        Hotspots {
            entries: vec![Entry::default(); count as usize],
            levels: Levels::new(Some(Top { levels: 8, entries: in_top })),
            blocks,
            of_block: vec![NONE; of_block],
            block_of: vec![NONE; count as usize],
            hit_in: vec![NONE; count as usize],
            used: 0,
            statistics: Statistics::default(),
            tick: 0,
            period_ends: Instant::ZERO,
            jump: 1,
        }
    }

    fn touch(&mut self, block: u64) -> u8 {
        let hotspot = usize::try_from(block / self.blocks).expect("blocks are on the origin");
        let found = self.of_block[hotspot];
        if found == NONE {
            self.statistics.misses += 1;
            return self.insert(hotspot);
        }
        self.statistics.count(self.entries[found as usize].level);
        let seen = std::mem::replace(&mut self.hit_in[found as usize], self.tick);
        let jump = if seen == self.tick { 0 } else { self.jump };
        self.levels.raise(&mut self.entries, found, jump, 0);
        self.entries[found as usize].level
    }

    fn insert(&mut self, hotspot: usize) -> u8 {
        let index = if (self.used as usize) < self.entries.len() {
            self.used += 1;
            self.used - 1
        } else {
            let index = self.levels.lowest(LEVELS).expect("all entries are queued");
            self.levels.remove(&mut self.entries, index);
            self.of_block[self.block_of[index as usize] as usize] = NONE;
            index
        };
        self.of_block[hotspot] = index;
        self.block_of[index as usize] = u32::try_from(hotspot).expect("fewer than blocks");
        self.hit_in[index as usize] = NONE;
        self.levels.push(&mut self.entries, index, End::Newest);
        self.entries[index as usize].level
    }

    fn confidence(&self) -> Confidence {
        match self.statistics.sixteenths() {
            0 => Confidence::Poor,
            1 => Confidence::Fair,
            _ => Confidence::Well,
        }
    }

    fn end_period(&mut self, surplus_to: End) {
        self.jump = match self.confidence() {
            Confidence::Poor => 4,
            Confidence::Fair => 2,
            Confidence::Well => 1,
        };
        self.levels.redistribute(&mut self.entries, surplus_to, 0);
        self.statistics = Statistics::default();
    }
}

impl Smq {
    pub(super) fn new(age: Age, cache_blocks: u32, origin_blocks: u64) -> Smq {
        Smq {
            age,
            entries: vec![Entry::default(); cache_blocks as usize],
            clean: Levels::new(None),
            dirty: Levels::new(None),
            hit_in: vec![NONE; cache_blocks as usize],
            free: (0..cache_blocks).collect(),
            cache_statistics: Statistics::default(),
            cache_period: 0,
            cache_period_ends: Instant::ZERO,
            demotes: Period::new(DEMOTE_PERIOD),
            writes_back: Period::new(WRITEBACK_PERIOD),
            hotspots: Hotspots::new(cache_blocks, origin_blocks),
            threshold: LEVELS,
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("came from 32 bits")
    }

    pub(super) fn free_count(&self) -> u32 {
        u32::try_from(self.free.len()).expect("came from 32 bits")
    }

    pub(super) fn dirty_count(&self) -> u32 {
        self.dirty.count()
    }

    const fn surplus_to(&self) -> End {
        if self.age.uses_table { End::Oldest } else { End::Newest }
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let after = |seconds: u64| Instant::from_nanos(now.as_nanos() + seconds * SECOND);
        self.demotes.tick(now);
        self.writes_back.tick(now);
        self.hotspots.tick = self.hotspots.tick.wrapping_add(1);
        self.set_threshold();
        let surplus_to = self.surplus_to();
        if now >= self.hotspots.period_ends {
            self.hotspots.period_ends = after(1);
            self.hotspots.end_period(surplus_to);
        }
        if now >= self.cache_period_ends {
            self.cache_period_ends = after(self.age.cache_period);
            self.cache_period += 1;
            self.dirty.redistribute(&mut self.entries, surplus_to, self.writes_back.number);
            self.clean.redistribute(&mut self.entries, surplus_to, self.demotes.number);
            self.cache_statistics = Statistics::default();
        }
    }

    fn set_threshold(&mut self) {
        let confidence = self.hotspots.confidence();
        let below =
            if self.age.uses_table { self.below_top_by_table(confidence) } else { below_top(confidence) };
        self.threshold = LEVELS - below;
    }

    /// The threshold of 4.11, in levels below the top.
    fn below_top_by_table(&self, confidence: Confidence) -> u8 {
        let sixteenths = usize::try_from(self.cache_statistics.sixteenths()).expect("at most 16");
        let full = if self.free.is_empty() { TABLE[sixteenths] } else { 32 };
        match confidence {
            Confidence::Poor => full / 4,
            Confidence::Fair => full / 2,
            Confidence::Well => full,
        }
    }

    pub(super) fn on_hit(&mut self, index: u32, block: u64) {
        if self.age.every_access_counts {
            self.hotspots.touch(block);
        }
        let entry = self.entries[index as usize];
        self.cache_statistics.count(entry.level);
        // Entries with work are in no queue (`requeue`).
        if !entry.is_queued || self.hit_in[index as usize] == self.cache_period {
            return;
        }
        self.hit_in[index as usize] = self.cache_period;
        let period = self.period_of(index);
        let queue = if self.is_dirty(index) { &mut self.dirty } else { &mut self.clean };
        queue.raise(&mut self.entries, index, 1, period);
    }

    pub(super) fn on_miss(&mut self, block: u64, want: Want) -> bool {
        self.cache_statistics.misses += 1;
        let level = self.hotspots.touch(block);
        match want {
            Want::WholeWrite if !self.free.is_empty() => true,
            Want::Read => level >= self.threshold,
            Want::Write | Want::WholeWrite => {
                let more = if self.age.uses_table { 2 } else { 0 };
                level >= self.threshold + more
            }
        }
    }

    pub(super) fn take_free(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(super) fn give_back(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(super) fn on_promoted(&mut self, index: u32, state: BlockState) {
        let level = if self.age.enters_at_top { LEVELS - 1 } else { 0 };
        self.entries[index as usize] =
            Entry { level, is_dirty: state == BlockState::Dirty, ..Entry::default() };
        self.hit_in[index as usize] = NONE;
        self.requeue(index);
    }

    pub(super) fn is_dirty(&self, index: u32) -> bool {
        self.entries[index as usize].is_dirty
    }

    fn period_of(&self, index: u32) -> u32 {
        if self.is_dirty(index) { self.writes_back.number } else { self.demotes.number }
    }

    pub(super) fn requeue(&mut self, index: u32) {
        self.entries[index as usize].period = self.period_of(index);
        let queue = if self.is_dirty(index) { &mut self.dirty } else { &mut self.clean };
        queue.push(&mut self.entries, index, End::Newest);
    }

    fn unqueue(&mut self, index: u32) {
        let queue = if self.is_dirty(index) { &mut self.dirty } else { &mut self.clean };
        queue.remove(&mut self.entries, index);
    }

    pub(super) fn set_state(&mut self, index: u32, state: BlockState) {
        let is_dirty = state == BlockState::Dirty;
        if self.is_dirty(index) == is_dirty {
            return;
        }
        let is_queued = self.entries[index as usize].is_queued;
        if is_queued {
            self.unqueue(index);
        }
        self.entries[index as usize].is_dirty = is_dirty;
        if is_queued {
            self.requeue(index);
        }
    }

    /// Removes the clean block that is demoted next from its queue; `None` if no block may be demoted.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        let index = match self.age.victims {
            Victims::Any => self.clean.lowest(LEVELS),
            Victims::LowerHalf => self.clean.lowest(LEVELS / 2),
            Victims::Rested => self.clean.lowest_from_before(&self.entries, self.demotes.guarded_from()),
        }?;
        self.unqueue(index);
        Some(index)
    }

    /// Removes the dirty block that is written back next from its queue; `None` if no block may be written back
    /// (`queue_writeback`).
    pub(super) fn take_writeback(&mut self, which: Writebacks) -> Option<u32> {
        let index = match which {
            Writebacks::Any => self.dirty.lowest(LEVELS),
            Writebacks::Rested => {
                self.dirty.lowest_from_before(&self.entries, self.writes_back.guarded_from())
            }
        }?;
        self.unqueue(index);
        Some(index)
    }

    pub(super) fn fill(&mut self) -> Vec<u32> {
        let filled: Vec<u32> = std::mem::take(&mut self.free);
        for index in &filled {
            self.entries[*index as usize] = Entry::default();
            self.clean.push(&mut self.entries, *index, End::Newest);
        }
        let surplus_to = self.surplus_to();
        self.clean.redistribute(&mut self.entries, surplus_to, 0);
        filled
    }
}

/// The threshold since 4.12, in levels below the top.
const fn below_top(confidence: Confidence) -> u8 {
    match confidence {
        Confidence::Poor => 16,
        Confidence::Fair => 32,
        Confidence::Well => 64,
    }
}
