//! The submissions in flight, each with what its completion is for.

use crate::device::SubmissionId;
use crate::inflight::pulse::PulseId;
use crate::inflight::purpose::Purpose;
use crate::inflight::slab::Slab;

#[derive(Debug)]
struct Entry {
    generation: u32,
    /// Whom it waits for.
    pulse: PulseId,
    purpose: Purpose,
}

/// The submissions in flight.
#[derive(Debug)]
pub(crate) struct Submissions {
    table: Slab<Entry>,
    generation: u32,
}

impl Submissions {
    pub(crate) const fn new() -> Submissions {
        Submissions { table: Slab::new(), generation: 0 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, pulse: PulseId, purpose: Purpose) -> SubmissionId {
        self.generation = self.generation.wrapping_add(1);
        let number = self.table.insert(Entry { generation: self.generation, pulse, purpose });
        SubmissionId::from_u64(u64::from(self.generation) << 32 | u64::from(number))
    }

    /// From whom completion `id` is, and what it is for.
    ///
    /// # Panics
    /// If the driver completes something twice, or something that it was never given.
    pub(crate) fn remove(&mut self, id: SubmissionId) -> (PulseId, Purpose) {
        let number = u32::try_from(id.as_u64() & u64::from(u32::MAX)).expect("masked to 32 bits");
        let entry = self.table.remove(number).expect("a submission completes once");
        assert!(u64::from(entry.generation) == id.as_u64() >> 32, "a submission completes once");
        (entry.pulse, entry.purpose)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
