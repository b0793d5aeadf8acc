//! Limits the bytes written to the cache device in a day, and chooses which writes are given up.
//!
//! * The bytes of the last day are counted in slots.
//! * Each slot has a share of the budget, which becomes credit gradually; each write reduces the credit, down to a
//!   limited debt. As the credit runs out, read-ahead is given up, then unknown blocks, then blocks in ghost memory,
//!   the oldest first.
//! * Client writes do not wait; those to the cache device reduce the credit.
//! * Bytes written before a restart count, if the caller stores them ([`Wear::history`], [`Wear::remember`]).

use core::num::NonZeroU64;

use crate::config::FILL_WINDOW_MIN;
use crate::policy::ghost_lists::EntryAge;
use crate::stats::{GivenUp, WearHistory, WearSlot};
use crate::time::{Duration, Instant};

/// Slots of a day.
const SLOTS: usize = 96;
const DAY: u64 = 86_400_000_000_000;
const SLOT: u64 = DAY / SLOTS as u64;
/// The number of the slot in which the clock is zero.
const ZERO: u64 = SLOTS as u64;
/// Credit is at most the budget divided by this.
const CREDIT_SHARE: i64 = 4;
/// The budget refuses a part of the writes below this credit: the budget divided by this.
const STRICT_SHARE: i64 = 32;
/// Each slot counts as if it demanded at least the mean divided by this.
const WANTED_SHARE: u64 = 32;
/// A slot may write this many halves of its share.
const HURRY: u128 = 3;
/// The denominator of the admitted shares of ranks.
const WHOLE: u64 = 1024;
const RANKS: usize = 5;
const DEPTH_MAX: u64 = RANKS as u64 * WHOLE;

/// The kinds of writes that the budget cuts, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    ReadAhead,
    Unknown,
    LongAgo,
    Lately,
    JustNow,
}

impl Rank {
    /// The rank of a block by its age in ghost memory; `None` if it is not there.
    pub(crate) const fn of(noted: Option<EntryAge>) -> Rank {
        match noted {
            None => Rank::Unknown,
            Some(EntryAge::LongAgo) => Rank::LongAgo,
            Some(EntryAge::Lately) => Rank::Lately,
            Some(EntryAge::JustNow) => Rank::JustNow,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Wear {
    budget: Option<NonZeroU64>,
    /// The last day, a ring.
    slots: [WearSlot; SLOTS],
    /// Bytes written in the last day.
    day: u64,
    /// The current slot, and the slot in which counting began.
    number: u64,
    first: u64,
    /// The start of the counted time, in nanoseconds since slot 0 began.
    since: u64,
    /// Bytes that may be written at once; less than 0 after more writes than that.
    credit: i64,
    /// The bytes that the current slot may write, and the part that is no longer to become credit.
    rate: u64,
    given: u64,
    /// For each rank, the sum of the admitted shares: at [`WHOLE`] a request is admitted, and the sum is reduced.
    turns: [u64; RANKS],
    /// Blocks that were not admitted because of the budget.
    refused: u64,
}

impl Wear {
    pub(crate) fn new(now: Instant, budget: Option<NonZeroU64>) -> Wear {
        let number = Self::number(now);
        let mut wear = Wear {
            budget: None,
            slots: [WearSlot::default(); SLOTS],
            day: 0,
            number,
            first: number,
            since: Self::nanos(now),
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

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Sets another budget, in bytes a day.
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
        let passed = Self::number(now).saturating_sub(self.number);
        let kept = SLOTS.saturating_sub(usize::try_from(passed).unwrap_or(SLOTS));
        (0..kept as u64).map(|age| self.slot(self.number - age).written).sum()
    }

    /// The counted part of the day.
    pub(crate) fn counted(&self, now: Instant) -> Duration {
        Duration::from_nanos(Self::nanos(now).saturating_sub(self.since).min(DAY))
    }

    pub(crate) fn history(&self, now: Instant) -> WearHistory {
        let mut then = self.clone();
        then.pass(now);
        let first = then.first.max(then.number + 1 - SLOTS as u64);
        let slots = (first..=then.number).map(|number| then.slot(number)).collect();
        WearHistory { slots, credit: then.credit, counted: self.counted(now) }
    }

    /// Adds those counts of a history that are of the last day to the present counts; the history ended `ago` before
    /// the clock's zero.
    pub(crate) fn remember(&mut self, now: Instant, history: &WearHistory, ago: Duration) {
        self.pass(now);
        let last = ZERO.saturating_sub(ago.as_nanos() / SLOT);
        for (age, slot) in history.slots.iter().rev().enumerate() {
            let Some(number) =
                last.checked_sub(age as u64).filter(|number| number + SLOTS as u64 > self.number)
            else {
                break;
            };
            let known = &mut self.slots[Self::place(number)];
            known.written = known.written.saturating_add(slot.written);
            known.wanted = known.wanted.saturating_add(slot.wanted);
            self.day = self.day.saturating_add(slot.written);
            self.first = self.first.min(number);
            let began =
                (ZERO * SLOT).saturating_sub(ago.as_nanos()).saturating_sub(history.counted.as_nanos());
            self.since = self.since.min(began.max((self.number + 1 - SLOTS as u64) * SLOT));
        }
        if let Some(budget) = self.bytes() {
            let part = i128::from(budget) * i128::from(ago.as_nanos().min(DAY)) / i128::from(DAY);
            let gained = i64::try_from(part).expect("at most a day's budget");
            self.credit = self.credit.min(history.credit.saturating_add(gained));
        }
        self.begin_slot();
        self.given = self.due(now);
        self.bound_credit();
    }

    /// The writes that the budget cuts now, in part or completely.
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

    /// Clients write this many blocks, which the budget does not refuse.
    pub(crate) fn on_wanted(&mut self, now: Instant, blocks: u64) {
        if self.budget.is_some() {
            self.pass(now);
            self.slot_mut().wanted += blocks;
        }
    }

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

    /// The part of a fill window of this many bytes that the budget leaves.
    pub(crate) fn window(&mut self, now: Instant, bytes: u64) -> u64 {
        if self.budget.is_none() {
            return bytes;
        }
        let left = bytes * self.part(now, Rank::ReadAhead) / WHOLE;
        (1_u64 << left.max(FILL_WINDOW_MIN).ilog2()).min(bytes)
    }

    /// The admitted share of a rank, in parts of [`WHOLE`].
    fn part(&mut self, now: Instant, rank: Rank) -> u64 {
        let end = (rank as u64 + 1) * WHOLE;
        end.saturating_sub(self.depth(now)).min(WHOLE)
    }

    /// The strictness: the number of cut ranks, in parts of [`WHOLE`].
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

    fn pass(&mut self, now: Instant) {
        let number = Self::number(now);
        if number <= self.number {
            return;
        }
        if number - self.number > SLOTS as u64 {
            self.number = number - SLOTS as u64;
            self.slots = [WearSlot::default(); SLOTS];
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

    /// Turns the slot's bytes up to `due` into credit, less those that are counted in `given`.
    fn give(&mut self, due: u64) {
        self.credit = self.credit.saturating_add_unsigned(due.saturating_sub(self.given));
        self.given = due.max(self.given);
        self.bound_credit();
    }

    fn due(&self, now: Instant) -> u64 {
        let start = (self.number - ZERO) * SLOT;
        let passed = u128::from(now.as_nanos().saturating_sub(start).min(SLOT));
        u64::try_from(u128::from(self.rate) * passed / u128::from(SLOT)).expect("at most the rate")
    }

    fn bound_credit(&mut self) {
        let Some(budget) = self.bytes() else { return };
        let most = (budget / CREDIT_SHARE).min(budget.saturating_sub_unsigned(self.day));
        self.credit = self.credit.min(most).max(-budget / STRICT_SHARE);
    }

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

    /// The mean demand of the slots of the last day, in blocks.
    fn mean_wanted(&self) -> u64 {
        let known = (self.number - self.first).min(SLOTS as u64);
        self.slots.iter().map(|slot| slot.wanted).sum::<u64>() / known.max(1)
    }

    const fn number(now: Instant) -> u64 {
        Self::nanos(now) / SLOT
    }

    /// Nanoseconds since the first slot.
    const fn nanos(now: Instant) -> u64 {
        ZERO * SLOT + now.as_nanos()
    }

    fn slot(&self, number: u64) -> WearSlot {
        self.slots[Self::place(number)]
    }

    fn slot_mut(&mut self) -> &mut WearSlot {
        &mut self.slots[Self::place(self.number)]
    }

    fn place(number: u64) -> usize {
        usize::try_from(number % SLOTS as u64).expect("a day has few slots")
    }
}

#[cfg(test)]
mod tests;
