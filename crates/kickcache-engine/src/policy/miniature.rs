//! A miniature of the cache: a simulation with a sample of the blocks and about the same share of the cache's room.
//!
//! Source: Waldspurger et al., *Cache Modeling and Optimization using Miniature Simulations*, ATC 2017. A miniature
//! keeps single blocks, as S3-FIFO does, and treats runs of a queue's blocks as segments. All of its memory is
//! allocated at the start.

use alloc::vec;
use alloc::vec::Vec;

use crate::policy::ghost::Content;
use crate::policy::ghost_lists::GhostLists;
use crate::policy::turn::{
    CARRIED_PERCENT, HOLD_AHEAD, HOLD_OFTEN, HOLD_ROUND, HOLD_SEARCH_MAX, HOLD_TURN, PROMOTION_HITS,
    SEARCH_MAX, carries_all, is_worth_emptying, stays_in_place,
};
use crate::queue::Queue;

/// Most blocks of a miniature.
pub(crate) const BLOCKS_MAX: u64 = 4_096;
/// Most hits that are counted.
const HITS_MAX: u8 = 3;
/// Requested blocks per tick: the room divided by this.
const TICK_SHARE: u64 = 8;
/// Ticks wrap around after this many.
const TICKS: u64 = 64;
/// The most segments that the room is divided into.
const SEGMENTS: u64 = 128;
const NONE: u16 = u16::MAX;

/// The treatment of a block that is not in the miniature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intake {
    /// Every block is admitted.
    All,
    /// Once full, admits written blocks, and, if there is room, blocks that missed often.
    Often,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupResult {
    Nothing,
    /// A block whose last request is less than [`TICK_SHARE`] ticks ago, modulo [`TICKS`].
    Soon,
    /// Any other block of the miniature.
    Late,
}

impl LookupResult {
    pub(crate) const fn is_hit(self) -> bool {
        !matches!(self, LookupResult::Nothing)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

/// The uses of a block: its hits, and the tick of its last request.
#[derive(Clone, Copy, Default, Debug)]
struct Uses(u8);

const _: () = assert!(HITS_MAX == 3 && TICKS << 2 == 256);

impl Uses {
    const fn new(hits: u8, tick: u8) -> Uses {
        Uses(tick << 2 | hits)
    }

    const fn hits(self) -> u8 {
        self.0 & HITS_MAX
    }

    const fn tick(self) -> u8 {
        self.0 >> 2
    }

    const fn with_hits(self, hits: u8) -> Uses {
        Uses::new(hits, self.tick())
    }
}

/// A block of the miniature, in the list of a queue and in a chain of near prints; or a free entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    print: u32,
    newer: u16,
    alike: u16,
}

const _: () = assert!(size_of::<Entry>() == 8 && BLOCKS_MAX < NONE as u64);

/// Entries from the oldest to the newest.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u16,
    newest: u16,
    count: u64,
}

impl List {
    const EMPTY: List = List { oldest: NONE, newest: NONE, count: 0 };

    fn push(&mut self, entries: &mut [Entry], entry: u16) {
        entries[usize::from(entry)].newer = NONE;
        match entries.get_mut(usize::from(self.newest)) {
            Some(newest) => newest.newer = entry,
            None => self.oldest = entry,
        }
        self.newest = entry;
        self.count += 1;
    }

    fn pop(&mut self, entries: &[Entry]) -> Option<u16> {
        let oldest = self.oldest;
        self.oldest = entries.get(usize::from(oldest))?.newer;
        if self.oldest == NONE {
            self.newest = NONE;
        }
        self.count -= 1;
        Some(oldest)
    }
}

#[derive(Clone, Copy)]
struct SegmentCounts {
    hot: u64,
    next: u16,
}

/// A miniature of the cache; a block is known by 32 bits of its hash.
#[derive(Debug)]
pub(crate) struct Miniature {
    intake: Intake,
    entries: Vec<Entry>,
    uses: Vec<Uses>,
    /// Requested blocks.
    clock: u64,
    /// The first entry of each chain.
    chains: Vec<u16>,
    free: List,
    /// Since it was last empty, the miniature has admitted a block while it was full.
    is_full: bool,
    probation: List,
    main: List,
    /// Blocks requested, while the miniature is full, since the last look at a segment, and since the turn began.
    since_look: u64,
    since_turn: u64,
    departed: GhostLists,
}

impl Miniature {
    pub(crate) fn new(capacity: u64, intake: Intake) -> Miniature {
        let capacity = u16::try_from(capacity.clamp(1, BLOCKS_MAX)).expect("few");
        let count = usize::from(capacity);
        let mut entries = vec![Entry { print: 0, newer: NONE, alike: NONE }; count];
        let mut free = List::EMPTY;
        (0..capacity).for_each(|entry| free.push(&mut entries, entry));
        Miniature {
            intake,
            entries,
            uses: vec![Uses::default(); count],
            clock: 0,
            chains: vec![NONE; count],
            free,
            is_full: false,
            probation: List::EMPTY,
            main: List::EMPTY,
            since_look: 0,
            since_turn: 0,
            departed: GhostLists::new(capacity.into()),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.chains.fill(NONE);
        (self.free, self.probation, self.main) = (List::EMPTY, List::EMPTY, List::EMPTY);
        for entry in 0..u16::try_from(self.entries.len()).expect("few") {
            self.free.push(&mut self.entries, entry);
        }
        self.is_full = false;
        self.departed.clear();
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let tables = self.entries.len() * size_of::<Entry>() + self.uses.len() + self.chains.len() * 2;
        tables as u64 + self.departed.memory_bytes()
    }

    pub(crate) const fn clock(&self) -> u64 {
        self.clock
    }

    /// The capacity in blocks.
    pub(crate) fn capacity(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn access(&mut self, print: u32, how: Use) -> LookupResult {
        self.clock += 1;
        if self.intake == Intake::Often && self.is_full {
            self.go_round();
        }
        let now = self.tick();
        if let Some(entry) = self.find(print) {
            let uses = &mut self.uses[usize::from(entry)];
            let age = (TICKS + u64::from(now) - u64::from(uses.tick())) % TICKS;
            *uses = Uses::new((uses.hits() + 1).min(HITS_MAX), now);
            return if age < TICK_SHARE { LookupResult::Soon } else { LookupResult::Late };
        }
        if let Some(queue) = self.place(print, how) {
            self.insert(print, queue);
        }
        LookupResult::Nothing
    }

    fn tick(&self) -> u8 {
        u8::try_from(self.clock * TICK_SHARE / self.capacity() % TICKS).expect("below 64")
    }

    fn chain(&self, print: u32) -> usize {
        usize::try_from((u64::from(print) * self.capacity()) >> 32).expect("below the capacity")
    }

    fn find(&self, print: u32) -> Option<u16> {
        let mut at = self.chains[self.chain(print)];
        loop {
            let entry = self.entries.get(usize::from(at))?;
            if entry.print == print {
                return Some(at);
            }
            at = entry.alike;
        }
    }

    /// The queue in which a new block starts, if it is admitted.
    fn place(&mut self, print: u32, how: Use) -> Option<Queue> {
        if let (Intake::Often, Use::Read, true) = (self.intake, how, self.is_full) {
            let is_often = self.departed.count(ghost_hash(print)) >= HOLD_OFTEN;
            return (is_often && self.free.count > 0).then_some(Queue::Main);
        }
        let known = self.departed.place(ghost_hash(print));
        Some(known.map_or(Queue::Probation, |known| known.queue))
    }

    fn insert(&mut self, print: u32, queue: Queue) {
        if self.free.count == 0 {
            if !self.is_full && self.intake == Intake::Often {
                self.begin_to_hold();
            }
            self.is_full = true;
            self.make_room();
        }
        let entry = self.free.pop(&self.entries).expect("there is room");
        let chain = self.chain(print);
        self.entries[usize::from(entry)] = Entry { print, newer: NONE, alike: self.chains[chain] };
        self.chains[chain] = entry;
        self.uses[usize::from(entry)] = Uses::new(0, self.tick());
        match queue {
            Queue::Probation => self.probation.push(&mut self.entries, entry),
            Queue::Main => self.main.push(&mut self.entries, entry),
        }
    }

    /// From here on misses are counted.
    fn begin_to_hold(&mut self) {
        self.departed.change(Content::PrintsAndCounts);
        while let Some(entry) = self.probation.pop(&self.entries) {
            self.main.push(&mut self.entries, entry);
        }
    }

    fn go_round(&mut self) {
        let round = self.capacity() * tuned!(HoldRound, HOLD_ROUND);
        (self.since_look, self.since_turn) = (self.since_look + 1, self.since_turn + 1);
        if self.since_turn == self.capacity() * tuned!(HoldTurn, HOLD_TURN) {
            self.since_turn = 0;
            self.departed.pass(1);
        }
        if self.since_look * self.main.count >= round * self.segment(&self.main) {
            self.since_look = 0;
            self.look_for_cold();
        }
    }

    /// Moves the blocks of main's oldest segment to the head with half of their hits, or drops cold ones to make room.
    fn look_for_cold(&mut self) {
        let count = self.segment(&self.main);
        let cold = count - self.look(self.main.oldest, count).hot;
        let is_emptied = is_worth_emptying(cold, count) && self.free.count < HOLD_AHEAD * count;
        for _ in 0..count {
            let Some(entry) = self.main.pop(&self.entries) else { return };
            let uses = &mut self.uses[usize::from(entry)];
            if uses.hits() == 0 && is_emptied {
                self.remove(entry, Queue::Main);
            } else {
                *uses = uses.with_hits(uses.hits() / 2);
                self.main.push(&mut self.entries, entry);
            }
        }
    }

    /// Reclaims segments until an entry is free.
    fn make_room(&mut self) {
        let target = if self.intake == Intake::All { self.departed.target() } else { 0 };
        while self.free.count == 0 {
            if self.probation.count > target || self.main.count == 0 {
                self.reclaim_probation();
            } else {
                self.keep_hot();
                self.reclaim_main();
            }
        }
    }

    /// The number of blocks of a queue that leave or stay together.
    fn segment(&self, queue: &List) -> u64 {
        self.capacity().div_ceil(SEGMENTS).min(queue.count)
    }

    fn reclaim_probation(&mut self) {
        for _ in 0..self.segment(&self.probation) {
            let Some(entry) = self.probation.pop(&self.entries) else { return };
            let uses = &mut self.uses[usize::from(entry)];
            if uses.hits() >= tuned!(PromotionHits, PROMOTION_HITS) {
                *uses = uses.with_hits(0);
                self.main.push(&mut self.entries, entry);
            } else {
                self.remove(entry, Queue::Probation);
            }
        }
    }

    /// The number of blocks with hits in the segment of main that begins with this entry, and the first entry of the
    /// next segment.
    fn look(&self, first: u16, count: u64) -> SegmentCounts {
        (0..count).fold(SegmentCounts { hot: 0, next: first }, |looked, _| {
            let at = usize::from(looked.next);
            SegmentCounts {
                hot: looked.hot + u64::from(self.uses[at].hits() > 0),
                next: self.entries[at].newer,
            }
        })
    }

    /// Keeps the segments before the segment to be reclaimed, each block with a hit less.
    fn keep_hot(&mut self) {
        let count = self.segment(&self.main);
        let most = self.main.count / count.max(1);
        let mut next = self.main.oldest;
        let looks = (0..most).map(|_| {
            let looked = self.look(next, count);
            next = looked.next;
            looked.hot
        });
        let kept = match self.intake {
            Intake::All => {
                looks.take(tuned!(Search, SEARCH_MAX)).take_while(|hot| stays_in_place(*hot, count)).count()
            }
            Intake::Often => {
                let looks = looks.take(HOLD_SEARCH_MAX).enumerate();
                looks.min_by_key(|(_, hot)| *hot).map_or(0, |(number, _)| number)
            }
        };
        (0..kept as u64 * count).for_each(|_| self.keep_oldest());
    }

    fn keep_oldest(&mut self) {
        let Some(entry) = self.main.pop(&self.entries) else { return };
        let uses = &mut self.uses[usize::from(entry)];
        *uses = uses.with_hits(uses.hits().saturating_sub(1));
        self.main.push(&mut self.entries, entry);
    }

    /// Reclaims the oldest segment of main; its hot blocks stay, up to [`carried_max`].
    fn reclaim_main(&mut self) {
        let count = self.segment(&self.main);
        let hot = self.look(self.main.oldest, count).hot;
        let mut carried = carried_max(self.intake, hot, count);
        for _ in 0..count {
            if carried > 0 && self.uses[usize::from(self.main.oldest)].hits() > 0 {
                carried -= 1;
                self.keep_oldest();
            } else if let Some(entry) = self.main.pop(&self.entries) {
                self.remove(entry, Queue::Main);
            }
        }
    }

    fn remove(&mut self, entry: u16, queue: Queue) {
        let Entry { print, alike, .. } = self.entries[usize::from(entry)];
        let chain = self.chain(print);
        if self.chains[chain] == entry {
            self.chains[chain] = alike;
        } else {
            let mut at = usize::from(self.chains[chain]);
            while self.entries[at].alike != entry {
                at = usize::from(self.entries[at].alike);
            }
            self.entries[at].alike = alike;
        }
        self.free.push(&mut self.entries, entry);
        self.departed.on_left(ghost_hash(print), queue);
    }
}

/// The most blocks of a segment of main that stay; `hot` of its `count` blocks have hits.
fn carried_max(intake: Intake, hot: u64, count: u64) -> u64 {
    match intake {
        Intake::Often if carries_all(hot, count) => hot,
        Intake::All | Intake::Often => count * u64::from(tuned!(Carried, CARRIED_PERCENT)) / 100,
    }
}

/// A hash for ghost memory, with the print in both halves.
fn ghost_hash(print: u32) -> u64 {
    u64::from(print) << 32 | u64::from(print)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(number: u32) -> u32 {
        let mixed = (number ^ (number >> 15)).wrapping_mul(0x2c1b_3c6d);
        let mixed = (mixed ^ (mixed >> 12)).wrapping_mul(0x297a_2d39);
        mixed ^ (mixed >> 15)
    }

    fn last_pass(miniature: &mut Miniature, length: u32, passes: u32) -> usize {
        let mut pass =
            || (0..length).filter(|number| miniature.access(print(*number), Use::Read).is_hit()).count();
        (1..passes).for_each(|_| {
            pass();
        });
        pass()
    }

    #[test]
    fn a_loop_that_fits_is_held() {
        for intake in [Intake::All, Intake::Often] {
            assert_eq!(last_pass(&mut Miniature::new(1_000, intake), 1_000, 2), 1_000);
        }
    }

    #[test]
    fn of_a_longer_loop_nearly_all_that_fits_is_kept() {
        let hits = |intake, length| last_pass(&mut Miniature::new(1_000, intake), length, 20);
        assert!(hits(Intake::Often, 2_000) > 980);
        assert!(hits(Intake::Often, 4_000) > 980);
        assert!(hits(Intake::All, 4_000) < 50);
    }

    #[test]
    fn written_blocks_are_admitted() {
        let mut miniature = Miniature::new(1_000, Intake::Often);
        (0..1_000).for_each(|number| {
            miniature.access(print(number), Use::Read);
        });
        miniature.access(print(5_000), Use::Write);
        assert!(miniature.access(print(5_000), Use::Read).is_hit());
    }

    #[test]
    fn a_return_within_the_capacity_is_soon() {
        for (others, found) in [(900, LookupResult::Soon), (1_100, LookupResult::Late)] {
            let mut miniature = Miniature::new(1_000, Intake::All);
            (0..2).for_each(|_| {
                miniature.access(print(0), Use::Read);
            });
            (0..others).for_each(|number| {
                miniature.access(print(1 + number % 500), Use::Read);
            });
            assert_eq!(miniature.access(print(0), Use::Read), found, "{others}");
        }
    }

    #[test]
    fn a_cleared_miniature_admits_every_block() {
        let mut miniature = Miniature::new(500, Intake::Often);
        last_pass(&mut miniature, 1_000, 3);
        assert!(miniature.is_full());
        miniature.clear();
        assert!(!miniature.is_full());
        assert_eq!(last_pass(&mut miniature, 1, 1) + last_pass(&mut miniature, 500, 1), 1);
        assert_eq!(last_pass(&mut miniature, 500, 1), 500);
    }

    #[test]
    fn lists_and_chains_agree_and_memory_is_constant() {
        let mut miniature = Miniature::new(300, Intake::All);
        let memory = miniature.memory_bytes();
        for round in 0..20_000_u32 {
            miniature.access(print(print(round) % 700), if round % 3 == 0 { Use::Write } else { Use::Read });
        }
        let Miniature { free, probation, main, .. } = &miniature;
        assert_eq!(free.count + probation.count + main.count, 300);
        let held = (0..700).filter(|number| miniature.find(print(*number)).is_some()).count() as u64;
        assert_eq!((held, memory), (probation.count + main.count, miniature.memory_bytes()));
    }

    fn mixed(miniature: &mut Miniature, length: u32, reads: u32) -> usize {
        let mut hits = 0;
        for number in 0..reads {
            let drawn = print(number);
            let among = if drawn.is_multiple_of(10) { 4_000 } else { 400 };
            let block = if number % 2 == 0 { number / 2 % length } else { (1 << 20) + (drawn >> 8) % among };
            let is_hit = miniature.access(print(block), Use::Read).is_hit();
            hits += usize::from(is_hit && number >= reads / 2);
        }
        hits
    }

    #[test]
    fn rarely_used_blocks_make_room_for_a_mixed_loop() {
        let reads = 80_000;
        // The best set is the hot tenth, 400 blocks with 45 % of the reads, and 600 blocks of the loop.
        let best = f64::from(reads / 2) * (0.455 + 0.5 * 600.0 / 1_500.0);
        let hits = |intake| mixed(&mut Miniature::new(1_000, intake), 1_500, reads) as f64;
        assert!(hits(Intake::Often) > 0.93 * best, "{} of {best}", hits(Intake::Often));
        assert!(hits(Intake::All) < 0.9 * best, "{}", hits(Intake::All));
    }
}
