//! How much may be written to the cache device in a day, and what is given up for that.
//!
//! * What was written in the last day is counted in slots, and beside it what would have come in without a budget. A slot's share is
//!   in proportion to what was wanted at the same time a day before, and as large as it can be for no day that ends within the next
//!   one to have more than the budget. It may write half as much again: what is left then, later slots have the less.
//! * What a slot may write becomes credit bit by bit, and what is written is taken from it. Credit is never more than what is left of
//!   the budget for the last day. While there is enough, nothing is given up. As it runs out, read-ahead is given up, then unknown
//!   blocks, then those that ghost memory knows, the oldest first: of each rank a part passes that shrinks to none before the next one
//!   has its turn.
//! * There is credit for a part of a day at first, so that an empty cache fills.
//! * What clients write waits for nothing, but takes from the credit as well.

use core::num::NonZeroU64;

use crate::config::FILL_WINDOW_MIN;
use crate::policy::departed::Noted;
use crate::stats::GivenUp;
use crate::time::{Duration, Instant};

/// Slots of a day.
const SLOTS: usize = 96;
const DAY: u64 = 86_400_000_000_000;
const SLOT: u64 = DAY / SLOTS as u64;
/// Credit is at most this part of the budget.
const CREDIT_SHARE: i64 = 4;
/// Less credit than this part of the budget makes strict.
const STRICT_SHARE: i64 = 32;
/// A slot is taken for one that wants at least this part of the mean.
const WANTED_SHARE: u64 = 32;
/// Halves of its share that a slot may write: what others leave is used sooner.
const HURRY: u128 = 3;
/// Parts are told in this many.
const WHOLE: u64 = 1024;
const RANKS: usize = 5;
const DEPTH_MAX: u64 = RANKS as u64 * WHOLE;

/// What is given up, first things first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    ReadAhead,
    Unknown,
    LongAgo,
    Lately,
    JustNow,
}

impl Rank {
    /// Of a block that ghost memory noted then, if it did.
    pub(crate) const fn of(noted: Option<Noted>) -> Rank {
        match noted {
            None => Rank::Unknown,
            Some(Noted::LongAgo) => Rank::LongAgo,
            Some(Noted::Lately) => Rank::Lately,
            Some(Noted::JustNow) => Rank::JustNow,
        }
    }
}

/// What happened in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Slot {
    /// Bytes.
    written: u64,
    /// Blocks.
    wanted: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Wear {
    budget: Option<NonZeroU64>,
    /// The last day, a ring.
    slots: [Slot; SLOTS],
    /// Bytes written in it.
    day: u64,
    /// The slot under way, counted from the clock's zero, and the first one.
    number: u64,
    first: u64,
    /// Bytes.
    credit: i64,
    /// What the slot under way may write, and how much of that has become credit.
    rate: u64,
    given: u64,
    /// Of each rank, how near its next block is to its turn.
    turns: [u64; RANKS],
    /// Blocks that did not come in.
    refused: u64,
}

impl Wear {
    pub(crate) fn new(now: Instant, budget: Option<NonZeroU64>) -> Wear {
        let number = now.as_nanos() / SLOT;
        let mut wear = Wear {
            budget: None,
            slots: [Slot::default(); SLOTS],
            day: 0,
            number,
            first: number,
            credit: 0,
            rate: 0,
            given: 0,
            turns: [0; RANKS],
            refused: 0,
        };
        wear.set_budget(now, budget);
        wear
    }

    pub(crate) const fn budget(&self) -> Option<NonZeroU64> {
        self.budget
    }

    /// Blocks that did not come in because of it.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Another budget, in bytes a day.
    pub(crate) fn set_budget(&mut self, now: Instant, budget: Option<NonZeroU64>) {
        self.pass(now);
        if self.budget.is_none() {
            self.credit = i64::MAX;
        }
        self.budget = budget;
        self.begin_slot();
        self.given = self.due(now);
        self.bound_credit();
    }

    /// Bytes written in the day up to now.
    pub(crate) fn day_bytes(&self, now: Instant) -> u64 {
        let passed = (now.as_nanos() / SLOT).saturating_sub(self.number);
        let kept = SLOTS.saturating_sub(usize::try_from(passed).unwrap_or(SLOTS));
        (0..kept as u64)
            .filter_map(|age| self.number.checked_sub(age))
            .map(|slot| self.slot(slot).written)
            .sum()
    }

    /// How much of that day was counted.
    pub(crate) fn counted(&self, now: Instant) -> Duration {
        let start = Instant::from_nanos(self.first * SLOT);
        Duration::from_nanos(now.since(start).as_nanos().min(DAY))
    }

    /// What is given up now, in part or whole.
    pub(crate) fn given_up(&self, now: Instant) -> GivenUp {
        let mut then = self.clone();
        match then.depth(now) {
            0 => GivenUp::Nothing,
            depth if depth <= WHOLE => GivenUp::ReadAhead,
            depth if depth <= 2 * WHOLE => GivenUp::UnknownBlocks,
            depth if depth < DEPTH_MAX => GivenUp::KnownBlocks,
            _ => GivenUp::Everything,
        }
    }

    /// This many bytes go to the cache device.
    pub(crate) fn on_written(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.slot_mut().written += bytes;
        self.day += bytes;
        if self.budget.is_some() {
            self.credit = self.credit.saturating_sub_unsigned(bytes);
            self.bound_credit();
        }
    }

    /// Clients write this many blocks, which come in whatever it costs.
    pub(crate) fn on_wanted(&mut self, now: Instant, blocks: u64) {
        if self.budget.is_some() {
            self.pass(now);
            self.slot_mut().wanted += blocks;
        }
    }

    /// Whether blocks of a rank come in.
    pub(crate) fn allows(&mut self, now: Instant, rank: Rank, blocks: u64) -> bool {
        if self.budget.is_none() {
            return true;
        }
        let part = self.part(now, rank);
        self.slot_mut().wanted += blocks;
        let turn = &mut self.turns[rank as usize];
        *turn += part;
        let is_allowed = *turn >= WHOLE;
        if is_allowed {
            *turn -= WHOLE;
        } else {
            self.refused += blocks;
        }
        is_allowed
    }

    /// What is left of a fill window of this many bytes, a power of two.
    pub(crate) fn window(&mut self, now: Instant, bytes: u64) -> u64 {
        if self.budget.is_none() {
            return bytes;
        }
        let left = bytes * self.part(now, Rank::ReadAhead) / WHOLE;
        (1_u64 << left.max(FILL_WINDOW_MIN).ilog2()).min(bytes)
    }

    /// Which part of a rank comes in.
    fn part(&mut self, now: Instant, rank: Rank) -> u64 {
        let end = (rank as u64 + 1) * WHOLE;
        end.saturating_sub(self.depth(now)).min(WHOLE)
    }

    /// How strict it is: as many ranks as this are given up, in parts of one.
    fn depth(&mut self, now: Instant) -> u64 {
        let Some(budget) = self.bytes() else { return 0 };
        self.pass(now);
        self.give(self.due(now));
        let span = (budget / STRICT_SHARE).max(1);
        let lack = (span - self.credit.max(0)).max(0).unsigned_abs();
        let depth = u128::from(lack) * u128::from(DEPTH_MAX) / u128::from(span.unsigned_abs());
        u64::try_from(depth).expect("at most all ranks")
    }

    fn bytes(&self) -> Option<i64> {
        self.budget.map(|budget| i64::try_from(budget.get()).unwrap_or(i64::MAX))
    }

    /// Slots go by.
    fn pass(&mut self, now: Instant) {
        let number = now.as_nanos() / SLOT;
        if number <= self.number {
            return;
        }
        if number - self.number > SLOTS as u64 {
            self.number = number - SLOTS as u64;
            self.slots = [Slot::default(); SLOTS];
            self.day = 0;
        }
        while self.number < number {
            self.give(self.rate);
            self.number += 1;
            self.given = 0;
            self.begin_slot();
            self.day -= core::mem::take(self.slot_mut()).written;
            self.bound_credit();
        }
    }

    /// So much of what the slot may write has become credit.
    fn give(&mut self, due: u64) {
        self.credit = self.credit.saturating_add_unsigned(due.saturating_sub(self.given));
        self.given = due.max(self.given);
        self.bound_credit();
    }

    fn due(&self, now: Instant) -> u64 {
        let passed = u128::from(now.as_nanos().saturating_sub(self.number * SLOT).min(SLOT));
        u64::try_from(u128::from(self.rate) * passed / u128::from(SLOT)).expect("at most the rate")
    }

    /// Credit is no more than what is left of the day's budget, and no more is owed than makes strictest.
    fn bound_credit(&mut self) {
        let Some(budget) = self.bytes() else { return };
        let most = (budget / CREDIT_SHARE).min(budget.saturating_sub_unsigned(self.day));
        self.credit = self.credit.min(most).max(-budget / STRICT_SHARE);
    }

    /// Decides what the slot that begins may write, before what was written in it a day ago is forgotten.
    fn begin_slot(&mut self) {
        let Some(budget) = self.budget else { return };
        let mean = self.mean_wanted();
        let wanted = |number: u64| {
            let is_known = number >= self.first + SLOTS as u64;
            let before = if is_known { self.slot(number).wanted } else { mean };
            u128::from(before.max(mean / WANTED_SHARE).max(1))
        };
        let others = (1..SLOTS as u64).map(|ahead| self.slot(self.number + ahead).written);
        let mut left = i128::from(budget.get()) - i128::from(others.sum::<u64>());
        let own = wanted(self.number);
        let mut all = 0;
        let mut rate = u128::from(budget.get());
        for number in self.number..self.number + SLOTS as u64 {
            if number > self.number {
                left += i128::from(self.slot(number).written);
            }
            all += wanted(number);
            rate = rate.min(left.max(0).unsigned_abs() * own / all);
        }
        self.rate = u64::try_from(rate * HURRY / 2).unwrap_or(u64::MAX);
    }

    /// What a slot of the last day wanted.
    fn mean_wanted(&self) -> u64 {
        let known = (self.number - self.first).min(SLOTS as u64);
        self.slots.iter().map(|slot| slot.wanted).sum::<u64>() / known.max(1)
    }

    /// Slots a day apart share a place.
    fn slot(&self, number: u64) -> Slot {
        self.slots[Self::place(number)]
    }

    fn slot_mut(&mut self) -> &mut Slot {
        &mut self.slots[Self::place(self.number)]
    }

    fn place(number: u64) -> usize {
        usize::try_from(number % SLOTS as u64).expect("a day has few slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 96 << 20;
    const BLOCK: u64 = 4096;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn wear() -> Wear {
        Wear::new(Instant::ZERO, NonZeroU64::new(BUDGET))
    }

    /// Lets a block of a rank ask to come in so often between two hours; gives the bytes that were written for that.
    fn ask(wear: &mut Wear, rank: Rank, hours: core::ops::Range<u64>, each_second: u64) -> u64 {
        let mut written = 0;
        for second in hours.start * 3_600..hours.end * 3_600 {
            for _ in 0..each_second {
                if wear.allows(at(second), rank, 1) {
                    wear.on_written(at(second), BLOCK);
                    written += BLOCK;
                }
            }
        }
        written
    }

    fn is_within(bytes: u64, percent: core::ops::RangeInclusive<u64>) -> bool {
        percent.contains(&(bytes * 100 / BUDGET))
    }

    #[test]
    fn a_day_of_demand_takes_the_budget_and_each_day_after_it_as_well() {
        let mut wear = wear();
        for day in 0..3 {
            let written = ask(&mut wear, Rank::Unknown, day * 24..(day + 1) * 24, 1);
            assert!(is_within(written, 95..=100), "day {day}: {written}");
        }
        assert!(is_within(wear.day_bytes(at(72 * 3_600)), 95..=100));
    }

    #[test]
    fn an_empty_cache_fills_from_a_quarter_of_a_day_at_once_and_the_rest_lasts_for_the_day() {
        let mut wear = wear();
        let first = ask(&mut wear, Rank::Unknown, 0..1, 20);
        assert!(is_within(first, 24..=30), "{first}");
        let hours: alloc::vec::Vec<u64> =
            (1..20).map(|hour| ask(&mut wear, Rank::Unknown, hour..hour + 1, 20)).collect();
        assert!(hours.iter().all(|bytes| is_within(*bytes, 1..=5)), "{hours:?}");
    }

    #[test]
    fn what_is_wanted_at_the_same_time_of_each_day_has_the_budget_then() {
        let mut wear = wear();
        let day = |wear: &mut Wear, day: u64| ask(wear, Rank::Unknown, day * 24 + 8..day * 24 + 16, 5);
        let first = day(&mut wear, 0);
        let second = day(&mut wear, 1);
        assert!(first < second && is_within(second, 94..=101), "{first}, then {second}");
    }

    #[test]
    fn ranks_are_given_up_one_after_the_other() {
        let mut wear = wear();
        assert_eq!((wear.given_up(at(0)), wear.window(at(0), 1 << 20)), (GivenUp::Nothing, 1 << 20));
        let mut seen = alloc::vec::Vec::new();
        for _ in 0..BUDGET / 4 / BLOCK {
            wear.on_written(at(0), BLOCK);
            seen.push(wear.given_up(at(0)));
            if seen.last() == Some(&GivenUp::UnknownBlocks) {
                assert_eq!(wear.window(at(0), 1 << 20), 4096, "nothing is left of read-ahead");
                assert_eq!(wear.part(at(0), Rank::LongAgo), WHOLE);
            }
        }
        seen.dedup();
        let all = [
            GivenUp::Nothing,
            GivenUp::ReadAhead,
            GivenUp::UnknownBlocks,
            GivenUp::KnownBlocks,
            GivenUp::Everything,
        ];
        assert_eq!(seen, all);
        assert!(!wear.allows(at(0), Rank::JustNow, 1));
    }

    #[test]
    fn known_blocks_come_in_where_unknown_ones_take_more_than_there_is() {
        let mut wear = wear();
        ask(&mut wear, Rank::Unknown, 0..12, 5);
        let known = (0..1_000).filter(|_| wear.allows(at(12 * 3_600), Rank::JustNow, 1)).count();
        assert_eq!(known, 1_000);
    }

    #[test]
    fn writes_of_clients_beyond_the_budget_leave_nothing_for_others_until_the_day_has_passed() {
        let mut wear = wear();
        wear.on_written(at(10), 2 * BUDGET);
        assert_eq!(ask(&mut wear, Rank::JustNow, 0..23, 1), 0);
        assert!(ask(&mut wear, Rank::JustNow, 24..30, 1) > 0);
    }

    #[test]
    fn a_budget_that_comes_later_knows_what_was_written_before() {
        let mut wear = Wear::new(Instant::ZERO, None);
        assert!(wear.allows(at(0), Rank::Unknown, 1));
        wear.on_written(at(60), BUDGET);
        assert_eq!(wear.window(at(60), 1 << 20), 1 << 20);
        wear.set_budget(at(60), NonZeroU64::new(BUDGET));
        assert!(!wear.allows(at(60), Rank::Unknown, 1));
        wear.set_budget(at(60), NonZeroU64::new(8 * BUDGET));
        assert!(!wear.allows(at(60), Rank::Unknown, 1), "credit comes with time");
        assert!(wear.allows(at(3_600), Rank::Unknown, 1));
        wear.set_budget(at(60), None);
        assert!(wear.allows(at(60), Rank::Unknown, 1));
    }

    #[test]
    fn a_day_is_the_last_24_hours_also_where_nothing_was_asked_for() {
        let mut wear = Wear::new(at(7_200), None);
        wear.on_written(at(7_300), 5);
        wear.on_written(at(7_200 + 12 * 3_600), 7);
        assert_eq!([14, 26, 38].map(|hour| wear.day_bytes(at(hour * 3_600))), [12, 7, 0]);
        assert_eq!(wear.counted(at(5 * 3_600)).as_nanos() / 1_000_000_000, 3 * 3_600);
        assert_eq!(wear.counted(at(50 * 3_600)).as_nanos(), DAY);
    }
}
