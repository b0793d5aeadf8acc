//! Mirrors the cache device to its successor.

use kickcache_engine::device::{Completion, Data, Device, DeviceOperation, SubmissionId};
use kickcache_engine::mirror::Mirror;
use kickcache_engine::mirror::ending::Ending;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::host::in_flight::Progress;
use crate::host::takeover_errors::TakeoverErrors;
use crate::host::{Host, Surroundings};
use crate::operation::memory_of;
use crate::subject::Subject;

impl<E: Subject> Host<E> {
    pub fn begin_mirror(&mut self, extent: ByteExtent) {
        let writes =
            self.in_flight.iter().flatten().filter(|flight| flight.device == Device::Cache && flight.writes);
        let writes = writes.map(|flight| SubmissionId::from_u64(flight.id));
        self.mirror = Some(Mirror::new(extent, writes));
        self.takeover.begin();
    }

    pub fn mirror(&mut self) -> Option<&mut Mirror> {
        self.mirror.as_mut()
    }

    /// Whether neither device of a mirror has submissions in flight; records of the host do not count.
    pub fn is_mirror_idle(&self) -> bool {
        let is_on_cache = |device| device == Device::Cache;
        self.twins.is_empty()
            && !self.in_flight.iter().flatten().any(|flight| is_on_cache(flight.device) && !flight.is_note())
    }

    pub fn end_mirror(&mut self) {
        self.mirror = None;
    }

    /// Abandons a successor that does not respond: its submissions in flight have no further effect, and end
    /// later.
    pub fn desert(&mut self, now: Instant) {
        let Some(mirror) = &mut self.mirror else { return };
        let endings = mirror.desert();
        for flight in self.twins.values_mut() {
            if let Some((pieces, _)) = memory_of(&flight.operation) {
                self.memory.release(flight.id, pieces);
            }
            let id = flight.id;
            self.claims.retain(|claim| claim.id != id);
            flight.operation = DeviceOperation::Flush { device: Device::Successor };
            flight.progress = Progress::Done;
        }
        for ending in endings {
            if let Ending::Ended(id, result) = ending {
                let result = result.map(|()| Data::default());
                self.engine.handle_completion(now, Completion { id, result });
            }
        }
    }

    /// Ends the mirror after the successor has become the cache device, and submits the operations that
    /// waited.
    ///
    /// # Errors
    /// If an operation that waited is not allowed.
    pub fn switch(&mut self, around: &mut Surroundings<'_>) -> Result<(), String> {
        let Some(mirror) = self.mirror.take() else { return Ok(()) };
        self.faults = self.plan_faults;
        let held = mirror.into_held().collect::<Vec<_>>();
        held.into_iter().try_for_each(|submission| self.submit_to_cache(submission, around))
    }

    pub fn note_sealed(&mut self) {
        self.faults = self.faults.once_sealed();
        self.takeover.note_sealed();
    }

    pub fn takeover_errors(&self) -> &TakeoverErrors {
        &self.takeover
    }
}
