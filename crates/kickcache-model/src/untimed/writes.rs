//! Devices on which only writes to the cache device may take time; all other operations end at once.

use std::collections::VecDeque;

use kickcache_engine::blank_device;
use kickcache_engine::device::{Completion, Data, Device, DeviceOperation, SubmissionId};
use kickcache_engine::engine::Engine;
use kickcache_engine::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Writes {
    time: Duration,
    in_flight: VecDeque<(Instant, SubmissionId)>,
}

impl Writes {
    pub(super) fn new(time: Duration) -> Writes {
        Writes { time, in_flight: VecDeque::new() }
    }

    pub(super) fn are_instant(&self) -> bool {
        self.time == Duration::from_nanos(0)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|write| write.0)
    }

    pub(super) fn end(&mut self, engine: &mut Engine, now: Instant) {
        while self.next().is_some_and(|ends| ends <= now)
            && let Some((_, id)) = self.in_flight.pop_front()
        {
            let result = Ok(Data { checksums: &[], bytes: &[] });
            engine.handle_completion(now, Completion { id, result });
        }
    }

    pub(super) fn take(&mut self, engine: &mut Engine, now: Instant) {
        if self.are_instant() {
            return blank_device::run(engine, now);
        }
        while let Some(submission) = engine.poll_submission() {
            let Some(data) = blank_device::data_of(&submission.operation) else { continue };
            let is_write = matches!(
                submission.operation,
                DeviceOperation::Write { device: Device::Cache, .. } | DeviceOperation::WriteMetadata { .. }
            );
            if is_write {
                self.in_flight.push_back((now.plus(self.time), submission.id));
            } else {
                engine.handle_completion(now, Completion { id: submission.id, result: Ok(data) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

    use super::*;
    use crate::untimed::{Fill, InstantCache, Outcome, Scale, Trial};
    use crate::workload::Kind;

    /// Writes of one block, 2 us apart, to a cache with a device that takes `time` for each.
    fn after_writes(time: Duration) -> Outcome {
        let trial = Trial { cache_blocks: 4_096, scale: Scale(1), fill: Fill::Exact, write_budget: None };
        let mut cache = InstantCache::open(1 << 30, trial).unwrap().with_write_time(time);
        for number in 0..1_000 {
            let extent = ByteExtent { start: number * 3 * BLOCK_SIZE, length: BLOCK_SIZE };
            cache.access(Instant::from_nanos(number * 2_000), Kind::Write, extent);
        }
        cache.outcome()
    }

    #[test]
    fn writes_that_arrive_during_others_share_a_header() {
        let [instant, timed] = [0, 20].map(|micros| after_writes(Duration::from_micros(micros)));
        let blocks = |outcome: Outcome| outcome.cache_write_bytes / BLOCK_SIZE;
        assert_eq!([instant, timed].map(|outcome| outcome.admitted_blocks), [1_000, 1_000]);
        assert!(blocks(instant) >= 2_000, "{instant:?}");
        assert!(blocks(timed) < 1_300, "about ten writes arrive while one is in flight: {timed:?}");
    }
}
