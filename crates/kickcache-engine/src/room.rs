//! Room in the log: what a volume may fill with what its origin lacks, and which segments are reclaim's alone.
//!
//! Invariants:
//! * a volume finds its reserve of the log whatever the others' origins do: what they have there that their origins
//!   lack, headers included, never takes it.
//! * reclaim finds room to carry blocks on, whatever clients write.

use crate::config::RESERVED_SEGMENTS;
use crate::policy::admission::Pressure;
use crate::policy::quota::Quota;
use crate::queue::Queue;
use crate::state::State;
use crate::units::VolumeId;

/// Writes through the log may go beyond the dirty limit of their volume by one part in this many of the cache, divided among
/// the volumes.
const THROUGH_PART: u64 = 16;

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
    /// limit of all when each of the others has its reserve, but no more than its own limit. `used` is what each of them has.
    fn log_allowance(&self, volume: VolumeId, used: impl Fn(VolumeId) -> u64) -> u64 {
        let share = |limit: u16| self.cache.geometry().capacity_blocks() * u64::from(limit) / 1024;
        let limits = self.volumes.ids().map(|volume| self.volumes.get(volume).settings.dirty_limit);
        let quota = Quota::new(share(limits.max().unwrap_or(0)), self.volumes.known());
        let own = share(self.volumes.get(volume).settings.dirty_limit);
        if mutant!(NeighboursRoomTaken) {
            return u64::MAX / 2048;
        }
        quota.allowance(volume, used).min(own).max(1)
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

    /// Whether writes through the log that wait for the origin have filled what little more they may.
    pub(crate) fn is_log_overdrawn(&self, volume: VolumeId) -> bool {
        let capacity = self.cache.geometry().capacity_blocks();
        let count = u64::from(self.volumes.known().bits().count_ones()).max(1);
        let used = self.cache.log_use();
        used(volume) >= self.log_allowance(volume, &used) + capacity / THROUGH_PART / count
    }
}
