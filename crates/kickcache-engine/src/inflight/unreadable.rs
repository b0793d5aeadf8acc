//! State about failed reads of the cache device.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::cache::BlockCopy;
use crate::time::{Duration, Instant};
use crate::units::BlockKey;

/// Time between two scheduled tries of a block, or of a device that is not readable.
pub(crate) const PAUSE: Duration = Duration::from_millis(1_000);
/// A cache device that has completed no read with success since a failed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failing {
    pub(crate) since: Instant,
    /// When the superblock of the device is read next.
    pub(crate) probe_at: Instant,
}

/// Failed reads of a block alone, as far as they count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Failures {
    pub(crate) count: u32,
    pub(crate) last: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    pub(crate) failing: Option<Failing>,
    pub(crate) answered: Instant,
    pub(crate) probes: usize,
    pub(crate) is_probing: bool,
    /// Blocks in failed reads: the engine itself reads each alone.
    pub(crate) doubtful: BTreeMap<BlockCopy, Failures>,
    /// When the read of a doubtful block alone last failed.
    pub(crate) last_failure: Instant,
    pub(crate) damaged: BTreeSet<BlockKey>,
}

impl Unreadable {
    /// Whether the device is readable and no block must be read alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.failing.is_none() && self.doubtful.is_empty()
    }

    /// The end of the pause in the engine's own reads, if the cache device is not readable.
    pub(crate) fn rest_until(&self) -> Option<Instant> {
        self.failing.map(|failing| failing.probe_at)
    }

    /// When all doubtful blocks may be tried again, if some have to wait.
    pub(crate) fn retry_at(&self, now: Instant) -> Option<Instant> {
        let at = self.last_failure.plus(PAUSE);
        (!self.doubtful.is_empty() && at > now).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::format::superblock::Superblock;
    use crate::units::{BlockIndex, Location, VolumeId};

    #[test]
    fn doubtful_blocks_and_dead_devices_are_retried_after_a_pause() {
        let at = |millis: u64| Instant::ZERO.plus(Duration::from_millis(millis));
        let mut unreadable = Unreadable::default();
        assert!(unreadable.is_empty() && unreadable.retry_at(at(0)).is_none());
        let cache = Cache::new(Superblock::new([1; 16], 16 << 20).unwrap().geometry);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(0));
        let copy = cache.copy_at(key, Location::new(1));
        unreadable.doubtful.insert(copy, Failures::default());
        unreadable.last_failure = at(500);
        assert_eq!((unreadable.is_empty(), unreadable.retry_at(at(600))), (false, Some(at(1_500))));
        assert_eq!(unreadable.retry_at(at(1_500)), None, "it is time already");
        unreadable.failing = Some(Failing { since: at(0), probe_at: at(900) });
        assert_eq!(unreadable.rest_until(), Some(at(900)));
    }
}
