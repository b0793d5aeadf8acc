//! Caps on the requests of a volume's clients.
//!
//! Flushes do not wait: the client already has the replies to the writes that it flushes. Discards and writes
//! of zeroes count as requests, not by their bytes.

use std::collections::VecDeque;

use kickcache_engine::config::VOLUME_COUNT_MAX;
use kickcache_engine::rate::RateUse;
use kickcache_engine::request::Operation;
use kickcache_engine::time::{Instant, earlier};
use kickcache_engine::units::VolumeId;

use crate::plan::client_cap::ClientCap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weight {
    pub(crate) operation: Operation,
    pub(crate) bytes: u64,
}

impl Weight {
    const fn passes(self) -> bool {
        matches!(self.operation, Operation::Flush)
    }

    const fn counted_bytes(self) -> u64 {
        match self.operation {
            Operation::Read | Operation::Write(_) | Operation::Promote => self.bytes,
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => 0,
        }
    }
}

pub(crate) struct Throttles<T> {
    /// The state of each volume, by its number; `None` if it has had no cap since it was added.
    by_volume: Vec<Option<Throttle<T>>>,
    /// Requests that had to wait since the volume was added, by its number.
    held_total: [u64; VOLUME_COUNT_MAX],
}

struct Throttle<T> {
    cap: ClientCap,
    used: RateUse,
    /// Whether waiting requests are due because the volume is being removed.
    is_open: bool,
    waiting: VecDeque<DelayedRequest<T>>,
}

struct DelayedRequest<T> {
    weight: Weight,
    request: T,
}

impl<T> Default for Throttles<T> {
    fn default() -> Throttles<T> {
        Throttles { by_volume: Vec::new(), held_total: [0; VOLUME_COUNT_MAX] }
    }
}

impl<T> Throttles<T> {
    /// Sets the cap of a volume. Waiting requests stay in the queue; without a cap, they are due at once.
    pub(crate) fn set(&mut self, volume: VolumeId, cap: ClientCap) {
        let index = usize::from(volume.get());
        if self.by_volume.len() <= index {
            if cap.rate.is_off() {
                return;
            }
            self.by_volume.resize_with(index + 1, || None);
        }
        let found = &mut self.by_volume[index];
        match found {
            Some(throttle) if throttle.cap == cap => {}
            Some(throttle) => (throttle.cap, throttle.used) = (cap, RateUse::default()),
            None if cap.rate.is_off() => {}
            None => {
                let waiting = VecDeque::new();
                *found = Some(Throttle { cap, used: RateUse::default(), is_open: false, waiting });
            }
        }
    }

    /// Makes the waiting requests of a volume that is being removed due.
    pub(crate) fn open(&mut self, volume: VolumeId) {
        self.find_mut(volume).into_iter().for_each(|throttle| throttle.is_open = true);
    }

    /// Ends the effect of [`Throttles::open`].
    pub(crate) fn close(&mut self, volume: VolumeId) {
        self.find_mut(volume).into_iter().for_each(|throttle| throttle.is_open = false);
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        self.by_volume.get_mut(usize::from(volume.get())).into_iter().for_each(|throttle| *throttle = None);
        self.held_total[usize::from(volume.get())] = 0;
    }

    fn find_mut(&mut self, volume: VolumeId) -> Option<&mut Throttle<T>> {
        self.by_volume.get_mut(usize::from(volume.get()))?.as_mut()
    }

    pub(crate) fn cap(&self, volume: VolumeId) -> ClientCap {
        let found = self.by_volume.get(usize::from(volume.get())).and_then(Option::as_ref);
        found.map_or_else(ClientCap::default, |throttle| throttle.cap)
    }

    pub(crate) fn held_total(&self, volume: VolumeId) -> u64 {
        self.held_total[usize::from(volume.get())]
    }

    /// Returns the request if it may begin; otherwise queues it for [`Throttles::take_due`].
    pub(crate) fn pass(&mut self, now: Instant, volume: VolumeId, weight: Weight, request: T) -> Option<T> {
        let Some(throttle) = self.find_mut(volume) else { return Some(request) };
        if weight.passes() {
            return Some(request);
        }
        if throttle.waiting.is_empty() && throttle.ready_at() <= now {
            throttle.take(now, weight);
            return Some(request);
        }
        throttle.waiting.push_back(DelayedRequest { weight, request });
        self.held_total[usize::from(volume.get())] += 1;
        None
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        self.by_volume.iter_mut().flatten().find_map(|throttle| {
            if throttle.ready_at() > now {
                return None;
            }
            let DelayedRequest { weight, request } = throttle.waiting.pop_front()?;
            throttle.take(now, weight);
            Some(request)
        })
    }

    /// The next request that waits, due or not.
    pub(crate) fn take_any(&mut self) -> Option<T> {
        let mut all = self.by_volume.iter_mut().flatten();
        all.find_map(|throttle| throttle.waiting.pop_front()).map(|held| held.request)
    }

    pub(crate) fn take_out(&mut self, is_unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut unwanted = Vec::new();
        for throttle in self.by_volume.iter_mut().flatten().filter(|throttle| !throttle.waiting.is_empty()) {
            let waiting = std::mem::take(&mut throttle.waiting);
            let (gone, kept): (VecDeque<_>, VecDeque<_>) =
                waiting.into_iter().partition(|held| is_unwanted(&held.request));
            throttle.waiting = kept;
            unwanted.extend(gone.into_iter().map(|held| held.request));
        }
        unwanted
    }

    /// The earliest time at which [`Throttles::take_due`] returns a request; `None` if none waits.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.by_volume.iter().flatten().filter(|throttle| !throttle.waiting.is_empty());
        waiting.map(Throttle::ready_at).fold(None, |first, due| earlier(first, Some(due)))
    }
}

impl<T> Throttle<T> {
    fn ready_at(&self) -> Instant {
        if self.is_open { Instant::ZERO } else { self.used.ready_at(self.cap.burst) }
    }

    fn take(&mut self, now: Instant, weight: Weight) {
        self.used.take(now, &self.cap.rate, weight.counted_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use kickcache_engine::rate::RateCap;
    use kickcache_engine::request::{Durability, Unmap};
    use kickcache_engine::time::Duration;

    use super::*;

    const CAPPED: VolumeId = VolumeId::new(2);
    const READ: Weight = Weight { operation: Operation::Read, bytes: 4096 };

    fn throttles(bytes: u64, requests: u64) -> Throttles<u64> {
        let mut throttles = Throttles::default();
        let rate = RateCap { bytes: NonZeroU64::new(bytes), requests: NonZeroU64::new(requests) };
        throttles.set(CAPPED, ClientCap { rate, burst: Duration::from_millis(1_000) });
        throttles
    }

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// The number of a hundred simultaneous requests that begin within this many milliseconds.
    fn begun(throttles: &mut Throttles<u64>, weight: Weight, millis: u64) -> usize {
        let passed =
            (0..100).filter(|number| throttles.pass(at(0), CAPPED, weight, *number).is_some()).count();
        let mut released = Vec::new();
        while let Some(due) = throttles.poll_timeout().filter(|due| *due <= at(millis)) {
            released.extend(throttles.take_due(due));
        }
        assert!(released.is_sorted(), "{released:?}");
        passed + released.len()
    }

    #[test]
    fn a_burst_starts_at_once_and_the_rest_is_paced() {
        assert_eq!(begun(&mut throttles(0, 10), READ, 0), 11);
        assert_eq!(begun(&mut throttles(0, 10), READ, 5_000), 61);
        assert_eq!(begun(&mut throttles(40_960, 0), READ, 5_000), 61, "ten of 4 KiB a second");
        let mut throttles = throttles(0, 10);
        begun(&mut throttles, READ, 1_000);
        assert_eq!(throttles.held_total(CAPPED), 89);
    }

    #[test]
    fn flushes_pass_and_discards_count_as_one_request() {
        let mut bytes = throttles(4096, 0);
        assert_eq!(begun(&mut bytes, READ, 0), 2);
        let flush = Weight { operation: Operation::Flush, bytes: 0 };
        assert_eq!(bytes.pass(at(0), CAPPED, flush, 7), Some(7), "with other requests waiting");
        let long = |operation| Weight { operation, bytes: 1 << 40 };
        assert_eq!(begun(&mut throttles(4096, 0), long(Operation::Discard), 0), 100);
        let (unmap, durability) = (Unmap::Allow, Durability::Volatile);
        let zeroes = long(Operation::WriteZeroes { unmap, durability });
        assert_eq!(begun(&mut throttles(0, 10), zeroes, 0), 11);
    }

    #[test]
    fn other_volumes_do_not_wait_and_a_stop_releases_all() {
        let mut throttles = throttles(0, 1);
        begun(&mut throttles, READ, 0);
        assert_eq!(throttles.pass(at(0), VolumeId::new(0), READ, 7), Some(7));
        assert_eq!(std::iter::from_fn(|| throttles.take_any()).count(), 98);
        assert_eq!(throttles.poll_timeout(), None);
    }

    #[test]
    fn abandoned_requests_are_removed_and_the_rest_keep_their_order() {
        let mut throttles = throttles(0, 1);
        begun(&mut throttles, READ, 0);
        assert_eq!(throttles.take_out(|number| number % 2 == 0).len(), 49);
        let rest: Vec<u64> = std::iter::from_fn(|| throttles.take_any()).collect();
        assert_eq!(rest, (0..50).map(|half| half * 2 + 1).filter(|number| *number > 1).collect::<Vec<_>>());
    }

    #[test]
    fn removing_a_cap_releases_its_waiting_requests() {
        let mut throttles = throttles(0, 1);
        begun(&mut throttles, READ, 0);
        assert!(throttles.take_due(at(0)).is_none());
        throttles.open(CAPPED);
        assert!(throttles.take_due(at(0)).is_some(), "a volume that leaves");
        throttles.close(CAPPED);
        throttles.set(CAPPED, ClientCap::default());
        assert_eq!(std::iter::from_fn(|| throttles.take_due(at(0))).count(), 97);
        assert_eq!(begun(&mut throttles, READ, 0), 100);
    }
}
