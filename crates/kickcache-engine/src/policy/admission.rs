//! Which misses are promoted, by [`Admission`] and the history of a volume.

use crate::config::Admission;
use crate::policy::ghost_lists::EntryAge;
use crate::policy::shift::RequestedBlocks;
use crate::units::Sequence;

/// New blocks, or misses while strict, that are judged together: the cache's capacity in blocks divided by this,
/// [`JUDGED_MIN`] at least.
const JUDGED_SHARE: u64 = 16;
const JUDGED_MIN: u64 = 256;
/// The gate can become strict if the new blocks that left probation after a use are fewer than one in this many
/// requested blocks.
const STRICT: u64 = 512;
/// A strict gate opens if the misses of [`EntryAge::JustNow`] are at least one in this many requested blocks.
const OPEN: u64 = 256;
/// Misses are few if they are at most one in this many requested blocks.
const FEW: u64 = 8;
/// The cache has adapted to a volume once the volume has requested this many capacities of blocks since its last sudden
/// change.
const LEARNING: u64 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Promote,
    /// Serve the block from the origin only, and record the request in ghost memory.
    Remember,
}

/// The present difficulty of making room in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    /// More segments are ready than the reserve of reclaim.
    None,
    High,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Newcomer {
    /// The block was used in probation.
    pub(crate) was_used: bool,
    /// The sequence number of the newest batch in the block's segment.
    pub(crate) written: Sequence,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gate {
    /// With [`Admission::Pressure`], unknown blocks wait.
    is_strict: bool,
    /// Newcomers that left, or misses if strict, that are not judged yet.
    judged: u64,
    /// Judged blocks that were used, or requested again soon.
    used: u64,
    /// Requested blocks up to the last judgement or sudden change.
    asked: RequestedBlocks,
    /// The newest sequence number at the last sudden change, before which blocks do not count, and the requested blocks
    /// at that time.
    opened: Sequence,
    asked_at_change: RequestedBlocks,
}

impl Gate {
    /// A block of the volume leaves a segment of probation in its turn; `asked` are the requested blocks of its volume
    /// so far.
    pub(crate) fn on_left_probation(&mut self, newcomer: Newcomer, asked: RequestedBlocks, capacity: u64) {
        if self.is_strict || newcomer.written < self.opened {
            return;
        }
        self.used += u64::from(newcomer.was_used);
        self.judge(asked, capacity);
    }

    pub(crate) fn on_miss(&mut self, noted: Option<EntryAge>, asked: RequestedBlocks, capacity: u64) {
        if self.is_strict {
            self.used += u64::from(noted == Some(EntryAge::JustNow));
            self.judge(asked, capacity);
        }
    }

    fn judge(&mut self, asked: RequestedBlocks, capacity: u64) {
        self.judged += 1;
        if self.judged < (capacity / JUDGED_SHARE).max(JUDGED_MIN) {
            return;
        }
        let part = if self.is_strict { OPEN } else { STRICT };
        let RequestedBlocks { hits, misses } = asked.since(self.asked);
        let is_useless = self.used * part < hits + misses && misses * FEW <= hits + misses;
        let learned = asked.since(self.asked_at_change);
        self.is_strict = is_useless && learned.hits + learned.misses >= capacity * LEARNING;
        (self.used, self.judged, self.asked) = (0, 0, asked);
    }

    /// Begins again, after the requested blocks `asked`; blocks from before `newest` do not count.
    pub(crate) fn open(&mut self, newest: Sequence, asked: RequestedBlocks) {
        *self = Gate { opened: newest, asked, asked_at_change: asked, ..Gate::default() };
    }

    /// The treatment of a miss, by the time of its entry in ghost memory, if it has one.
    pub(crate) fn choose(
        &self,
        admission: Admission,
        pressure: Pressure,
        noted: Option<EntryAge>,
    ) -> Verdict {
        let may_enter = match admission {
            Admission::Always => true,
            Admission::Pressure if self.is_strict => noted.is_some_and(|noted| noted < EntryAge::LongAgo),
            Admission::Pressure if pressure == Pressure::None => true,
            Admission::Pressure | Admission::SecondTouch => noted.is_some(),
        };
        if may_enter { Verdict::Promote } else { Verdict::Remember }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 25_600;

    fn learned() -> Gate {
        Gate { asked: RequestedBlocks { hits: LEARNING * CAPACITY, misses: 0 }, ..Gate::default() }
    }

    fn asked(gate: &Gate, misses: u64, hits_for_a_miss: u64) -> RequestedBlocks {
        let RequestedBlocks { hits, misses: before } = gate.asked;
        RequestedBlocks { hits: hits + misses * hits_for_a_miss, misses: before + misses }
    }

    fn leave(gate: &mut Gate, used_of: u64, hits_for_a_miss: u64) {
        for number in 1..=CAPACITY / JUDGED_SHARE {
            let was_used = number.is_multiple_of(used_of);
            let newcomer = Newcomer { was_used, written: Sequence::new(7) };
            let asked = asked(gate, number, hits_for_a_miss);
            gate.on_left_probation(newcomer, asked, CAPACITY);
        }
    }

    fn choose(gate: &Gate, noted: Option<EntryAge>) -> Verdict {
        gate.choose(Admission::Pressure, Pressure::None, noted)
    }

    fn strict() -> Gate {
        let mut gate = learned();
        leave(&mut gate, 100, 20);
        assert_eq!(choose(&gate, None), Verdict::Remember);
        gate
    }

    #[test]
    fn unknown_blocks_wait_where_new_ones_rarely_hit() {
        assert_eq!(choose(&strict(), Some(EntryAge::Lately)), Verdict::Promote);
        assert_eq!(choose(&strict(), Some(EntryAge::LongAgo)), Verdict::Remember);
    }

    #[test]
    fn a_cache_that_misses_a_lot_has_not_proved_itself() {
        let mut gate = learned();
        leave(&mut gate, 1_000, 2);
        assert_eq!(choose(&gate, None), Verdict::Promote);
    }

    #[test]
    fn a_cache_that_still_learns_takes_everything() {
        let mut gate = Gate::default();
        leave(&mut gate, 1_000, 20);
        assert_eq!(choose(&gate, None), Verdict::Promote);
    }

    #[test]
    fn newcomers_that_are_used_do_not_wait() {
        let mut gate = learned();
        leave(&mut gate, 10, 20);
        assert_eq!(choose(&gate, None), Verdict::Promote);
    }

    #[test]
    fn blocks_that_come_back_at_once_end_the_wait() {
        let mut gate = strict();
        let misses = |gate: &mut Gate, returns_of: u64| {
            for number in 1..=CAPACITY / JUDGED_SHARE {
                let noted = number.is_multiple_of(returns_of).then_some(EntryAge::JustNow);
                let asked = asked(gate, number, 20);
                gate.on_miss(noted, asked, CAPACITY);
            }
        };
        misses(&mut gate, 50);
        assert_eq!(choose(&gate, None), Verdict::Remember);
        misses(&mut gate, 5);
        assert_eq!(choose(&gate, None), Verdict::Promote);
    }

    #[test]
    fn a_sudden_change_ends_the_wait() {
        let mut gate = strict();
        gate.open(Sequence::new(8), gate.asked);
        assert_eq!(choose(&gate, None), Verdict::Promote);
        leave(&mut gate, 100, 20);
        assert_eq!(choose(&gate, None), Verdict::Promote, "they were written before");
    }

    #[test]
    fn settings_decide_first() {
        let gate = strict();
        assert_eq!(gate.choose(Admission::Always, Pressure::High, None), Verdict::Promote);
        assert_eq!(Gate::default().choose(Admission::SecondTouch, Pressure::None, None), Verdict::Remember);
        assert_eq!(Gate::default().choose(Admission::Pressure, Pressure::High, None), Verdict::Remember);
    }
}
