//! Space in the log: its shares for volumes, the reserved segments, and reservations.
//!
//! Invariants:
//! * dirty and unflushed blocks of the other volumes do not use a volume's reserve of the log, except for a small
//!   excess for writes through the log.
//! * reclaim finds space to move blocks, independent of client writes.

use crate::config::{RESERVED_SEGMENTS, room_total};
use crate::policy::admission::Pressure;
use crate::policy::quota::Quota;
use crate::policy::reserves::Reserves;
use crate::queue::Queue;
use crate::state::State;
use crate::units::VolumeId;

/// The excess for writes through the log: one part in this many of the cache, divided among the volumes.
const THROUGH_PART: u64 = 16;
const READY_MIN: usize = 4 + RESERVED_SEGMENTS;
/// The excess over [`State::room_max`], in segments, above which reads promote no blocks.
const OVERDRAWN_SEGMENTS: u64 = 4;

impl State {
    /// The number of segments below which reclaim begins to empty more.
    pub(crate) fn ready_low(&self) -> usize {
        READY_MIN.max(self.cache.geometry().segment_count as usize / 128)
    }

    /// Segments that heads can take, now or once their opening is durable.
    pub(crate) fn segments_coming(&self) -> usize {
        self.device.log.ready_count() + self.reclaim.opening + self.reclaim.emptied.len()
    }

    /// Whether the log has space for a block that reclaim does not have to move.
    pub(crate) fn has_spare_room(&self, queue: Queue) -> bool {
        let has_more = self.device.log.ready_count() > RESERVED_SEGMENTS || mutant!(ReclaimsRoomTaken);
        has_more || queue == Queue::Probation && self.device.log.room(queue) > 0
    }

    pub(crate) fn pressure(&self) -> Pressure {
        if self.device.log.ready_count() <= RESERVED_SEGMENTS { Pressure::High } else { Pressure::None }
    }

    /// Blocks of the log that a volume may fill with dirty or unflushed data.
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

    /// The part of its allowance that a volume has filled with dirty or unflushed data, headers included, scaled so
    /// that its dirty limit is the whole allowance.
    pub(crate) fn dirty_share(&self, volume: VolumeId) -> u64 {
        let limit = u64::from(self.volumes.get(volume).settings.dirty_limit);
        let used = self.cache.log_use();
        used(volume) * limit / self.log_allowance(volume, &used)
    }

    /// [`State::dirty_share`] without headers.
    pub(crate) fn dirty_data_share(&self, volume: VolumeId) -> u64 {
        let limit = u64::from(self.volumes.get(volume).settings.dirty_limit);
        self.cache.volume(volume).not_clean() * limit / self.log_allowance(volume, self.cache.log_use())
    }

    /// The most blocks that a volume is to have in the cache, if it has a limit.
    pub(crate) fn room_max(&self, volume: VolumeId) -> Option<u64> {
        let max = self.volumes.get(volume).settings.room_max?;
        let capacity = self.cache.geometry().capacity_blocks();
        Some(max.blocks(capacity).min(capacity))
    }

    /// Clean blocks of a volume above its [`State::room_max`].
    pub(crate) fn room_excess(&self, volume: VolumeId) -> u64 {
        let Some(max) = self.room_max(volume) else { return 0 };
        let blocks = self.cache.volume(volume);
        blocks.cached.saturating_sub(max).min(blocks.cached - blocks.not_clean())
    }

    pub(crate) fn is_room_overdrawn(&self, volume: VolumeId) -> bool {
        let spare = u64::from(self.cache.geometry().batch_blocks()) * OVERDRAWN_SEGMENTS;
        self.room_max(volume).is_some_and(|max| self.cache.volume(volume).cached > max + spare)
    }

    /// The reservations of the volumes; `None` if no volume has one.
    pub(crate) fn reserves(&self) -> Option<Reserves> {
        let wanted = |volume| Some((volume, self.volumes.get(volume).settings.room_min?));
        let mut wanted = self.volumes.ids().filter_map(wanted).peekable();
        wanted.peek()?;
        let capacity = self.cache.geometry().capacity_blocks();
        let blocks = wanted.map(|(volume, room)| (volume, room.blocks(capacity)));
        Some(Reserves::new(blocks, room_total(capacity)))
    }

    pub(crate) fn is_reserved(&self, reserves: &Reserves, volume: VolumeId) -> bool {
        let own = reserves.of(volume);
        own > 0 && self.cache.volume(volume).cached <= own
    }

    /// Whether a volume has a reservation, and at most as many blocks in the cache.
    pub(crate) fn has_own_room(&self, volume: VolumeId) -> bool {
        let has_asked = self.volumes.get(volume).settings.room_min.is_some();
        has_asked && self.reserves().is_some_and(|reserves| self.is_reserved(&reserves, volume))
    }

    /// Whether a volume has used up its allowance in the log and the excess for writes through the log.
    pub(crate) fn is_log_overdrawn(&self, volume: VolumeId) -> bool {
        let capacity = self.cache.geometry().capacity_blocks();
        let count = u64::from(self.volumes.known().bits().count_ones()).max(1);
        let used = self.cache.log_use();
        used(volume) >= self.log_allowance(volume, &used) + capacity / THROUGH_PART / count
    }
}
