//! Room in the log: what a volume may fill with what its origin lacks, which segments are reclaim's alone, and what of the
//! cache is a volume's own.
//!
//! Invariants:
//! * a volume finds its reserve of the log whatever the others' origins do: what they have there that their origins
//!   lack, headers included, never takes it.
//! * reclaim finds room to carry blocks on, whatever clients write.

use crate::config::{RESERVED_SEGMENTS, room_total};
use crate::policy::admission::Pressure;
use crate::policy::quota::Quota;
use crate::policy::reserves::Reserves;
use crate::queue::Queue;
use crate::state::State;
use crate::units::VolumeId;

/// Writes through the log may go beyond the dirty limit of their volume by one part in this many of the cache, divided among
/// the volumes.
const THROUGH_PART: u64 = 16;
/// A volume may have this many segments more than its maximum before nothing that it reads is promoted.
const OVERDRAWN_SEGMENTS: u64 = 4;

impl State {
    /// Whether the log takes another block that reclaim need not carry: the last segments, and the head that it carries
    /// blocks to when these are all that is left, are reclaim's.
    pub(crate) fn has_spare_room(&self, queue: Queue) -> bool {
        let has_more = self.device.log.ready_count() > RESERVED_SEGMENTS || mutant!(ReclaimsRoomTaken);
        has_more || queue == Queue::Probation && self.device.log.room(queue) > 0
    }

    /// How hard it is to make room in the log.
    pub(crate) fn pressure(&self) -> Pressure {
        if self.device.log.ready_count() <= RESERVED_SEGMENTS { Pressure::High } else { Pressure::None }
    }

    /// Blocks of the log that a volume may fill with what its origin lacks or has not flushed: what is left of the largest
    /// limit of all when each of the others has its reserve, but no more than its own limit, which is a part of the room that it
    /// may have. `used` is what each of them has.
    fn log_allowance(&self, volume: VolumeId, used: impl Fn(VolumeId) -> u64) -> u64 {
        let capacity = self.cache.geometry().capacity_blocks();
        let share = |blocks: u64, limit: u16| blocks * u64::from(limit) / 1024;
        let limits = self.volumes.ids().map(|volume| self.volumes.get(volume).settings.dirty_limit);
        let most = limits.max().unwrap_or(0);
        let own = self.reserves().map_or_else(Reserves::default, |own| own.scaled(most.into(), 1024));
        let quota = Quota::with_own(share(capacity, most), self.volumes.known(), own);
        let limit = self.volumes.get(volume).settings.dirty_limit;
        if mutant!(NeighboursRoomTaken) {
            return u64::MAX / 2048;
        }
        let room = self.room_max(volume).unwrap_or(capacity);
        quota.allowance(volume, used).min(share(room, limit)).max(1)
    }

    /// How much of the log a volume has filled so, headers included, in 1/1024 of the cache as if it were alone: at its
    /// dirty limit it has all that it may have.
    pub(crate) fn dirty_share(&self, volume: VolumeId) -> u64 {
        let limit = u64::from(self.volumes.get(volume).settings.dirty_limit);
        let used = self.cache.log_use();
        used(volume) * limit / self.log_allowance(volume, &used)
    }

    /// The same without headers, which go when reclaim carries the few blocks on that are left between them: how much there
    /// is to write back.
    pub(crate) fn dirty_data_share(&self, volume: VolumeId) -> u64 {
        let limit = u64::from(self.volumes.get(volume).settings.dirty_limit);
        self.cache.volume(volume).not_clean() * limit / self.log_allowance(volume, self.cache.log_use())
    }

    /// Blocks that a volume has in the cache at most, but for what is not clean.
    pub(crate) fn room_max(&self, volume: VolumeId) -> Option<u64> {
        let max = self.volumes.get(volume).settings.room_max?;
        let capacity = self.cache.geometry().capacity_blocks();
        Some(max.blocks(capacity).min(capacity))
    }

    /// Clean blocks that a volume has beyond that.
    pub(crate) fn room_excess(&self, volume: VolumeId) -> u64 {
        let Some(max) = self.room_max(volume) else { return 0 };
        let blocks = self.cache.volume(volume);
        blocks.cached.saturating_sub(max).min(blocks.cached - blocks.not_clean())
    }

    /// Whether it has so much more than that that it must give some back first, which may take a while.
    pub(crate) fn is_room_overdrawn(&self, volume: VolumeId) -> bool {
        let spare = u64::from(self.cache.geometry().batch_blocks()) * OVERDRAWN_SEGMENTS;
        self.room_max(volume).is_some_and(|max| self.cache.volume(volume).cached > max + spare)
    }

    /// What of the cache is whose; nothing where no volume has asked for that.
    pub(crate) fn reserves(&self) -> Option<Reserves> {
        let wanted = |volume| Some((volume, self.volumes.get(volume).settings.room_min?));
        let mut wanted = self.volumes.ids().filter_map(wanted).peekable();
        wanted.peek()?;
        let capacity = self.cache.geometry().capacity_blocks();
        let blocks = wanted.map(|(volume, room)| (volume, room.blocks(capacity)));
        Some(Reserves::new(blocks, room_total(capacity)))
    }

    /// Whether a volume has no more in the cache than what is its own.
    pub(crate) fn is_reserved(&self, reserves: &Reserves, volume: VolumeId) -> bool {
        let own = reserves.of(volume);
        own > 0 && self.cache.volume(volume).cached <= own
    }

    /// Whether a volume has asked for room of its own, and what it reads finds some there.
    pub(crate) fn has_own_room(&self, volume: VolumeId) -> bool {
        let has_asked = self.volumes.get(volume).settings.room_min.is_some();
        has_asked && self.reserves().is_some_and(|reserves| self.is_reserved(&reserves, volume))
    }

    /// Whether writes through the log that wait for the origin have filled what little more they may.
    pub(crate) fn is_log_overdrawn(&self, volume: VolumeId) -> bool {
        let capacity = self.cache.geometry().capacity_blocks();
        let count = u64::from(self.volumes.known().bits().count_ones()).max(1);
        let used = self.cache.log_use();
        used(volume) >= self.log_allowance(volume, &used) + capacity / THROUGH_PART / count
    }
}
