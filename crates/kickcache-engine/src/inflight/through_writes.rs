//! The writes through the log that the origin has not completed: their blocks in the log.

use crate::cache::{BlockCopy, Cache};
use crate::ids::Ticket;
use crate::inflight::requests::{Pending, Requests, Stage};
use crate::inflight::writing::{IfRefused, Writing, Written};
use crate::task::Task;
use crate::units::{BlockKey, Location, VolumeId};

fn through_write(pending: &Pending) -> Option<&Writing> {
    match &pending.stage {
        Stage::Write(writing) if writing.is_through_log() => Some(writing),
        Stage::Simple | Stage::Write(_) | Stage::Cursor(_) => None,
    }
}

impl Requests {
    /// Whether an unacknowledged write through the log has stored this copy, not over a dirty one, and is queued at the
    /// origin.
    pub(crate) fn is_on_its_way(&self, cache: &Cache, volume: VolumeId, location: Location) -> bool {
        self.iter().any(|pending| match &pending.stage {
            Stage::Write(writing) if pending.volume == volume => {
                let is_it = |written: &Written| {
                    let is_alone = written.if_refused == IfRefused::StaysDirty;
                    written.copy.location == location && !is_alone && cache.is_alive(written.copy)
                };
                writing.place().is_some() && writing.written.iter().any(is_it)
            }
            Stage::Simple | Stage::Write(_) | Stage::Cursor(_) => false,
        })
    }

    /// The fate of a copy if the origin refuses it. Returns `None` unless a write through the log stored it and waits
    /// for the origin.
    pub(crate) fn written_through(&self, cache: &Cache, copy: BlockCopy) -> Option<IfRefused> {
        if !cache.slots().is_in_sweep(copy.location) {
            return None;
        }
        let mut written = self.iter().filter_map(through_write).flat_map(|writing| &writing.written);
        written.find(|written| written.copy == copy).map(|written| written.if_refused)
    }

    /// Adds a waiter for the end of the write through the log that stored a copy; `false` if there is none.
    pub(crate) fn await_origin(&mut self, cache: &Cache, copy: BlockCopy, task: Task) -> bool {
        if !cache.slots().is_in_sweep(copy.location) {
            return false;
        }
        let has_it = |writing: &Writing| writing.written.iter().any(|written| written.copy == copy);
        let found = self.iter_mut().find_map(|pending| match &mut pending.stage {
            Stage::Write(writing) if writing.is_through_log() && has_it(writing) => Some(writing),
            Stage::Simple | Stage::Write(_) | Stage::Cursor(_) => None,
        });
        let Some(writing) = found else { return false };
        writing.afterwards.push(task);
        true
    }

    /// Reclaim moved a block: the new copy replaces the old one in the write that stored it.
    pub(crate) fn follow_copy(&mut self, cache: &mut Cache, before: BlockCopy, place: Location) {
        if !cache.slots().is_in_sweep(before.location) {
            return;
        }
        let now = cache.copy_at(before.key, place);
        for pending in self.iter_mut() {
            let Stage::Write(writing) = &mut pending.stage else { continue };
            // Writeback must handle the blocks of a write that the log alone acknowledges.
            let is_through = writing.is_through_log();
            for written in writing.written.iter_mut().filter(|written| written.copy == before) {
                written.copy = now;
                if is_through {
                    cache.enter_sweep(place);
                }
            }
        }
    }

    /// Whether a write through the log that would drop a block if the origin refuses it has a place that satisfies
    /// `is_it`.
    pub(crate) fn is_any_through(&self, key: BlockKey, is_it: impl Fn(Ticket) -> bool) -> bool {
        self.iter().filter_map(through_write).any(|writing| {
            let mut own = writing.written.iter().filter(|written| written.if_refused == IfRefused::Forgotten);
            writing.place().is_some_and(&is_it) && own.any(|written| written.copy.key == key)
        })
    }

    /// The data of writes through the log stays in a block if the origin refuses them, unless a read behind them would
    /// return the earlier data.
    pub(crate) fn keep_if_refused(&mut self, key: BlockKey, is_read_behind: impl Fn(Ticket) -> bool) {
        for pending in self.iter_mut() {
            let Stage::Write(writing) = &mut pending.stage else { continue };
            if !writing.is_through_log() || writing.place().is_some_and(&is_read_behind) {
                continue;
            }
            let is_it = |written: &&mut Written| {
                written.copy.key == key && written.if_refused == IfRefused::Forgotten
            };
            let found = writing.written.iter_mut().filter(is_it);
            found.for_each(|written| written.if_refused = IfRefused::StaysUnflushed);
        }
    }

    /// # Panics
    /// If the count is wrong.
    pub(crate) fn check_through_count(&self) {
        let count = self.iter().filter_map(through_write).count();
        assert_eq!(count, self.through_count as usize, "writes through the log");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::cache::slots::SlotState;
    use crate::format::superblock::Superblock;
    use crate::ids::RequestSlot;
    use crate::inflight::writing::{LoggedPart, Logging, Route, WritePhase};
    use crate::request::{Durability, Operation, Request, RequestId};
    use crate::units::{BlockIndex, ByteExtent, Checksum};

    const VOLUME: VolumeId = VolumeId::new(0);
    const KEY: BlockKey = BlockKey::new(VOLUME, BlockIndex::new(0));
    const PLACE: Location = Location::new(9);

    /// A write that stored its block at [`PLACE`], with this route.
    fn logged(route: Route) -> (Requests, Cache, RequestSlot) {
        let mut cache = Cache::new(Superblock::new([1; 16], 16 << 20).unwrap().geometry);
        cache.insert(KEY, PLACE, Checksum::new(0), SlotState::Dirty);
        let mut requests = Requests::new();
        let operation = Operation::Write(Durability::Volatile);
        let extent = ByteExtent { start: 0, length: 4096 };
        let id = RequestId::new(1);
        let slot = requests.insert(&Request { id, volume: VOLUME, operation, extent, checksums: &[] });
        let mut writing = Writing::new(operation, extent, &[]).unwrap();
        writing.phase = WritePhase::Logging(Logging { route, ticket: None, taken: LoggedPart::All });
        let copy = cache.copy_at(KEY, PLACE);
        writing.written.push(Written { copy, if_refused: IfRefused::Forgotten });
        requests.get_mut(slot).stage = Stage::Write(writing.into());
        if route == Route::LogThrough {
            cache.enter_sweep(PLACE);
        }
        (requests, cache, slot)
    }

    #[test]
    fn copies_are_tracked_only_for_writes_through_the_log() {
        for (route, expected) in [(Route::LogThrough, Some(IfRefused::Forgotten)), (Route::Log, None)] {
            let (requests, cache, _) = logged(route);
            assert_eq!(requests.written_through(&cache, cache.copy_at(KEY, PLACE)), expected);
            assert!(!requests.is_on_its_way(&cache, VOLUME, PLACE), "it has no place at the origin yet");
        }
    }

    #[test]
    fn an_overwritten_origin_block_stays_unless_a_read_waits() {
        let block = |number| BlockKey::new(VOLUME, BlockIndex::new(number));
        let cases = [
            (Route::LogThrough, 0, false, IfRefused::StaysUnflushed),
            (Route::LogThrough, 0, true, IfRefused::Forgotten),
            (Route::LogThrough, 1, false, IfRefused::Forgotten),
            (Route::Log, 0, false, IfRefused::Forgotten),
        ];
        for (route, number, is_read_behind, expected) in cases {
            let (mut requests, _, slot) = logged(route);
            let phase =
                WritePhase::Logging(Logging { route, ticket: Some(Ticket(7)), taken: LoggedPart::All });
            requests.get_mut(slot).writing().phase = phase;
            requests.keep_if_refused(block(number), |ticket| ticket == Ticket(7) && is_read_behind);
            let if_refused = requests.get_mut(slot).writing().written[0].if_refused;
            assert_eq!(if_refused, expected, "{route:?}, block {number}, {is_read_behind}");
        }
    }

    #[test]
    fn a_copy_moved_by_reclaim_still_belongs_to_its_write() {
        let (mut requests, mut cache, slot) = logged(Route::LogThrough);
        let (before, next) = (cache.copy_at(KEY, PLACE), Location::new(20));
        cache.insert(KEY, next, Checksum::new(0), SlotState::Dirty);
        // The older copy is dead, and only its flag remains.
        cache.enter_sweep(PLACE);
        requests.follow_copy(&mut cache, before, next);
        let now = cache.copy_at(KEY, next);
        let written: Vec<_> = requests.get_mut(slot).writing().written.iter().map(|each| each.copy).collect();
        assert_eq!((written, cache.slots().is_in_sweep(next)), (alloc::vec![now], true));
        assert_eq!(requests.written_through(&cache, now), Some(IfRefused::Forgotten));
    }
}
