//! Requests that wait for a resource of other requests.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ids::RequestSlot;
use crate::units::{ByteExtent, VolumeId};

/// Why other changes of an extent wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockReason {
    /// A write completes partial blocks, or waits for space.
    Prepared,
    /// The origin receives a write or a discard: writeback must not store older blocks of the extent there.
    Replaced,
}

/// An extent of a write or a discard: other changes of it wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteLock {
    pub(crate) holder: RequestSlot,
    pub(crate) volume: VolumeId,
    pub(crate) extent: ByteExtent,
    pub(crate) reason: LockReason,
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Writes that wait for space in the log, in order.
    for_room: VecDeque<RequestSlot>,
    /// Requests that wait for pages, journal space or a lock.
    stalled: VecDeque<RequestSlot>,
    locks: Vec<WriteLock>,
}

impl Waiters {
    pub(crate) fn wait_for_room(&mut self, slot: RequestSlot) {
        self.for_room.push_back(slot);
    }

    pub(crate) fn want_room(&self) -> bool {
        !self.for_room.is_empty()
    }

    pub(crate) fn first_for_room(&self) -> Option<RequestSlot> {
        self.for_room.front().copied()
    }

    pub(crate) fn end_first_for_room(&mut self) {
        self.for_room.pop_front();
    }

    pub(crate) fn stall(&mut self, slot: RequestSlot) {
        self.stalled.push_back(slot);
    }

    pub(crate) fn take_stalled(&mut self) -> impl Iterator<Item = RequestSlot> {
        self.stalled.drain(..)
    }

    /// Locks an extent; a holder that has a lock already keeps that one.
    pub(crate) fn lock(&mut self, lock: WriteLock) {
        if !self.locks.iter().any(|other| other.holder == lock.holder) {
            self.locks.push(lock);
        }
    }

    /// Releases a lock; returns whether there was one.
    pub(crate) fn unlock(&mut self, holder: RequestSlot) -> bool {
        let before = self.locks.len();
        self.locks.retain(|lock| lock.holder != holder);
        self.locks.len() != before
    }

    /// Whether a part of the extent is locked.
    pub(crate) fn is_locked(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        self.locks_on(volume, extent).next().is_some()
    }

    /// Whether a part of the extent is locked as [`LockReason::Replaced`].
    pub(crate) fn is_replaced(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        self.locks_on(volume, extent).any(|lock| lock.reason == LockReason::Replaced)
    }

    fn locks_on(&self, volume: VolumeId, extent: ByteExtent) -> impl Iterator<Item = &WriteLock> {
        self.locks.iter().filter(move |lock| lock.volume == volume && lock.extent.overlaps(extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_holds_its_extent_until_its_release() {
        let mut waiters = Waiters::default();
        let (volume, other) = (VolumeId::new(0), VolumeId::new(1));
        let extent = |start| ByteExtent { start, length: 4096 };
        let (holder, reason) = (RequestSlot(7), LockReason::Prepared);
        waiters.lock(WriteLock { holder, volume, extent: extent(8192), reason });
        waiters.lock(WriteLock { holder, volume, extent: extent(0), reason });
        let locked = |waiters: &Waiters| {
            [(volume, 8191), (volume, 12287), (volume, 12288), (volume, 0), (other, 8192)]
                .map(|(volume, start)| waiters.is_locked(volume, extent(start)))
        };
        assert_eq!(locked(&waiters), [true, true, false, false, false], "a write has one lock, its first");
        assert_eq!((waiters.unlock(RequestSlot(8)), waiters.unlock(holder)), (false, true));
        assert_eq!((locked(&waiters), waiters.unlock(holder)), ([false; 5], false));
    }

    #[test]
    fn waiters_are_served_in_order_of_arrival() {
        let mut waiters = Waiters::default();
        for slot in [RequestSlot(3), RequestSlot(1)] {
            waiters.wait_for_room(slot);
            waiters.stall(slot);
        }
        assert_eq!(waiters.take_stalled().collect::<Vec<_>>(), [RequestSlot(3), RequestSlot(1)]);
        assert_eq!(waiters.take_stalled().count(), 0);
        assert_eq!(waiters.first_for_room(), Some(RequestSlot(3)));
        waiters.end_first_for_room();
        assert_eq!((waiters.first_for_room(), waiters.want_room()), (Some(RequestSlot(1)), true));
        waiters.end_first_for_room();
        assert!(!waiters.want_room());
    }
}
