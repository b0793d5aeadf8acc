//! The submissions, each with the purpose of its completion.

use alloc::collections::VecDeque;

use crate::device::{Device, DeviceOperation, Submission, SubmissionId};
use crate::inflight::pulse::{PulseId, Pulses};
use crate::inflight::purpose::Purpose;
use crate::inflight::slab::Slab;
use crate::time::Instant;

#[derive(Debug)]
struct Entry {
    generation: u32,
    /// The device that the submission waits for.
    pulse: PulseId,
    purpose: Purpose,
}

#[derive(Debug)]
pub(crate) struct Submissions {
    table: Slab<Entry>,
    generation: u32,
    pulses: Pulses,
    /// Submissions that the driver has not polled.
    outbox: VecDeque<Submission>,
}

impl Submissions {
    pub(crate) fn new() -> Submissions {
        Submissions { table: Slab::new(), generation: 0, pulses: Pulses::default(), outbox: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn add(&mut self, now: Instant, pulse: PulseId, purpose: Purpose, operation: DeviceOperation) {
        self.pulses.begin(now, pulse);
        self.generation = self.generation.wrapping_add(1);
        let number = self.table.insert(Entry { generation: self.generation, pulse, purpose });
        let id = SubmissionId::from_u64(u64::from(self.generation) << 32 | u64::from(number));
        self.outbox.push_back(Submission { id, operation });
    }

    /// Adds a submission without a completion.
    pub(crate) fn add_unanswered(&mut self, operation: DeviceOperation) {
        self.outbox.push_back(Submission { id: SubmissionId::from_u64(u64::MAX), operation });
    }

    pub(crate) fn poll(&mut self) -> Option<Submission> {
        self.outbox.pop_front()
    }

    pub(crate) fn is_polled_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Ends a submission; returns its purpose.
    ///
    /// # Panics
    /// If the driver completes a submission twice, or an unknown one.
    pub(crate) fn end(&mut self, now: Instant, id: SubmissionId) -> Purpose {
        let number = u32::try_from(id.as_u64() & u64::from(u32::MAX)).expect("masked to 32 bits");
        let entry = self.table.remove(number).expect("a submission completes once");
        assert!(u64::from(entry.generation) == id.as_u64() >> 32, "a submission completes once");
        self.pulses.end(now, entry.pulse);
        entry.purpose
    }

    pub(crate) fn silent_since(&self, device: Device) -> Option<Instant> {
        self.pulses.silent_since(device)
    }

    /// Whether no submission is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_finds_its_purpose_in_a_reused_slot() {
        let mut submissions = Submissions::new();
        let flush = || DeviceOperation::Flush { device: Device::Cache };
        let mut submit = |purpose| {
            submissions.add(Instant::ZERO, PulseId::CACHE, purpose, flush());
            let id = submissions.poll().unwrap().id;
            assert_eq!(submissions.silent_since(Device::Cache), Some(Instant::ZERO));
            (id, submissions.end(Instant::ZERO, id))
        };
        let (first, purpose) = submit(Purpose::CacheFlush);
        assert_eq!(purpose, Purpose::CacheFlush);
        let (second, purpose) = submit(Purpose::Note);
        assert_eq!(purpose, Purpose::Note);
        assert_ne!(first, second);
        assert!(submissions.is_empty() && submissions.is_polled_empty());
        assert_eq!(submissions.silent_since(Device::Cache), None);
    }

    #[test]
    #[should_panic(expected = "a submission completes once")]
    fn a_second_completion_is_refused() {
        let mut submissions = Submissions::new();
        let flush = || DeviceOperation::Flush { device: Device::Cache };
        submissions.add(Instant::ZERO, PulseId::CACHE, Purpose::CacheFlush, flush());
        let id = submissions.poll().unwrap().id;
        submissions.end(Instant::ZERO, id);
        submissions.add(Instant::ZERO, PulseId::CACHE, Purpose::CacheFlush, flush());
        submissions.end(Instant::ZERO, id);
    }
}
