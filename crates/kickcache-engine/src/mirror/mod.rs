//! Copies the cache device of a running engine to a successor.
//!
//! Submissions and their ends pass through the mirror, between an engine and its driver.
//!
//! Invariants:
//! * M-1: until a device fails, the copied part is the same on both devices once no write is in flight: a write to it
//!   is submitted to both, and ends when both have ended.
//! * M-2: a part is copied while no write is in flight there; new writes to it wait.
//! * M-3: once the superblock of the old device may record the takeover, an error of either device is an error for the
//!   engine, except an error of a discard on the new device.

pub mod ending;
mod flight;
pub mod side;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::device::{Device, DeviceError, DeviceOperation, Submission, SubmissionId};
use crate::mirror::ending::Ending;
use crate::mirror::flight::{Flight, Flights, Released};
use crate::mirror::side::Side;
use crate::units::ByteExtent;

/// The most bytes of one copy step.
pub const COPY_BYTES: u64 = 1 << 20;
/// The bit that marks the id of a submission to the new device: the lower halves of the engine's own ids are below it.
const TWIN: u64 = 1 << 31;

/// A submission, and its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// The device.
    pub side: Side,
    /// The operation.
    pub submission: Submission,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Copying,
    /// The superblock of the old device may record the takeover.
    Sealed,
    /// The engine's submissions to its cache device wait for the new device.
    Parting,
    /// The new device is abandoned.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    extent: ByteExtent,
    /// The host has begun to copy the part.
    is_begun: bool,
}

/// A pair of a device and its successor.
#[derive(Debug)]
pub struct Mirror {
    stage: Stage,
    /// All bytes before this offset have been copied, or are written by the host.
    copied: u64,
    extent: ByteExtent,
    part: Option<Part>,
    /// Submissions for the cache device that were in flight when the mirror began.
    unknown: BTreeSet<SubmissionId>,
    flights: Flights,
    /// Operations in flight on an abandoned device.
    deserted: BTreeSet<SubmissionId>,
    new_ends: u64,
    held: VecDeque<Submission>,
    outbox: VecDeque<Routed>,
    failure: Option<DeviceError>,
}

impl Mirror {
    /// Begins without any copied part; `in_flight` are the submissions for the cache device that the driver has
    /// already.
    pub fn new(extent: ByteExtent, in_flight: impl IntoIterator<Item = SubmissionId>) -> Mirror {
        Mirror {
            stage: Stage::Copying,
            copied: extent.start,
            extent,
            part: None,
            unknown: in_flight.into_iter().collect(),
            flights: Flights::default(),
            deserted: BTreeSet::new(),
            new_ends: 0,
            held: VecDeque::new(),
            outbox: VecDeque::new(),
            failure: None,
        }
    }

    /// Processes a submission of the engine.
    pub fn handle_submission(&mut self, submission: Submission) {
        if submission.operation.device() != Some(Device::Cache) {
            return self.route(Side::Old, submission);
        }
        if self.stage == Stage::Parting {
            if mutant!(PartingNotHeld) {
                return self.route(Side::Old, submission);
            }
            return self.held.push_back(submission);
        }
        match written(&submission.operation) {
            Some(extent) if self.is_held(extent) => self.held.push_back(submission),
            Some(extent) => self.write(extent, submission),
            None if is_flush(&submission.operation) && self.stage != Stage::GivenUp => {
                if mutant!(FlushSkipsSuccessor) {
                    return self.route(Side::Old, submission);
                }
                self.send_to_both(None, submission);
            }
            None => self.route(Side::Old, submission),
        }
    }

    /// The next submission for a driver.
    pub fn poll_submission(&mut self) -> Option<Routed> {
        self.outbox.pop_front()
    }

    /// Processes the end of a submission.
    pub fn handle_end(&mut self, id: SubmissionId, result: Result<(), DeviceError>) -> Ending {
        let side = if id.as_u64() & TWIN == 0 { Side::Old } else { Side::New };
        let id = old_id(id);
        if side == Side::Old && self.unknown.remove(&id) {
            return Ending::Passed;
        }
        if side == Side::New {
            self.new_ends += 1;
            if self.deserted.remove(&id) {
                return Ending::Awaited;
            }
        }
        let is_sealed = matches!(self.stage, Stage::Sealed | Stage::Parting);
        if let Err(error) = result
            && (side == Side::New || is_sealed && self.flights.has(id))
            && !self.flights.is_discard(id)
            && (is_sealed || !mutant!(SuccessorErrorForgiven))
        {
            self.failure.get_or_insert(error);
        }
        let counts = match side {
            Side::Old => !is_sealed || !mutant!(SealedOldErrorForgiven),
            Side::New if is_sealed => !mutant!(SealedSuccessorErrorForgiven),
            Side::New => mutant!(SuccessorErrorTold),
        };
        self.flights.end(id, side, if counts { result } else { Ok(()) })
    }

    /// The next part for the host to copy. Returns a new part only after the previous one was copied.
    pub fn poll_copy(&mut self) -> Option<ByteExtent> {
        if self.stage != Stage::Copying || self.is_copied() {
            return None;
        }
        let start = self.copied;
        let length = COPY_BYTES.min(self.extent.end() - start);
        let part = self.part.get_or_insert(Part { extent: ByteExtent { start, length }, is_begun: false });
        let is_clear = (self.unknown.is_empty() || mutant!(WritesBeforeMirrorIgnored))
            && !self.flights.touch(part.extent);
        if part.is_begun || !(is_clear || mutant!(CopiedUnderWrites)) {
            return None;
        }
        part.is_begun = true;
        Some(part.extent)
    }

    /// The host cannot copy the part yet: [`Mirror::poll_copy`] returns the part again.
    pub fn postpone_copy(&mut self) {
        if let Some(part) = &mut self.part {
            part.is_begun = false;
        }
    }

    /// The part was copied.
    ///
    /// # Panics
    /// If no part was requested.
    pub fn handle_copied(&mut self) {
        let part = self.part.take().expect("a part is copied after its request");
        self.copied = part.extent.end();
        self.release();
    }

    /// Bytes that have been copied.
    pub fn copied_bytes(&self) -> u64 {
        self.copied - self.extent.start
    }

    /// Bytes to be copied in all.
    pub fn bytes(&self) -> u64 {
        self.extent.length
    }

    /// Whether the whole extent has been copied.
    pub fn is_copied(&self) -> bool {
        self.copied == self.extent.end()
    }

    /// The first error of the new device, except of a discard; after sealing, of either device since
    /// [`Mirror::take_failure`].
    pub fn failure(&self) -> Option<DeviceError> {
        self.failure
    }

    /// Returns an error of either device since sealing, or since the last call. A failed flush may have dropped
    /// superblocks that the host has written.
    pub fn take_failure(&mut self) -> Option<DeviceError> {
        self.failure.take()
    }

    /// From here on, errors of the new device are errors for the engine, except those of discards. The whole extent was
    /// copied and then flushed.
    ///
    /// # Panics
    /// M-3: if the copy is incomplete, or the new device has failed.
    pub fn seal(&mut self) {
        assert!(self.stage == Stage::Copying && self.is_copied(), "M-3: not all has been copied");
        assert!(self.failure.is_none(), "M-3: the new device has failed");
        self.stage = Stage::Sealed;
    }

    /// The new device is to become the cache: further submissions to the cache device wait.
    ///
    /// # Panics
    /// M-3: if it was not sealed.
    pub fn part(&mut self) {
        assert!(self.stage == Stage::Sealed, "M-3: a device takes over once it is known to have all");
        self.stage = Stage::Parting;
    }

    /// Returns the waiting submissions, for the new device only. Call this once no operation is in flight on either
    /// device.
    pub fn into_held(self) -> impl Iterator<Item = Submission> {
        debug_assert!(self.stage == Stage::Parting && self.flights.is_empty());
        self.held.into_iter()
    }

    /// Abandons the new device.
    ///
    /// # Panics
    /// M-3: if the superblock of the old device may record the takeover.
    pub fn give_up(&mut self) {
        assert!(self.stage == Stage::Copying || self.stage == Stage::GivenUp, "M-3: there is no way back");
        self.stage = Stage::GivenUp;
        self.part = None;
        self.release();
    }

    /// Abandons a new device that does not respond. Returns the ends of operations that waited only for the new device.
    ///
    /// The device may still read the memory of its operations, which the engine may reuse: so the new device must not
    /// be used before [`Mirror::is_quiet`], and the memory must stay allocated.
    ///
    /// # Panics
    /// M-3: if the superblock of the old device may record the takeover.
    pub fn desert(&mut self) -> Vec<Ending> {
        self.give_up();
        let Released { twins, endings } = self.flights.release_twins();
        self.deserted.extend(twins);
        for Routed { submission, .. } in self.outbox.iter().filter(|routed| routed.side == Side::New) {
            self.deserted.remove(&old_id(submission.id));
        }
        self.outbox.retain(|routed| routed.side == Side::Old);
        if mutant!(SilentSuccessorAwaited) { Vec::new() } else { endings }
    }

    /// The number of ended operations of the new device, if the engine waits for it.
    pub fn waits_for_new(&self) -> Option<u64> {
        self.flights.has_twins().then_some(self.new_ends)
    }

    /// Whether a submission waits for a part.
    pub fn waits_for_part(&self) -> bool {
        self.stage == Stage::Copying && !self.held.is_empty()
    }

    /// Whether the mirror can be removed after [`Mirror::give_up`].
    pub fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && !self.flights.has_twins() && self.deserted.is_empty()
    }

    fn is_held(&self, extent: ByteExtent) -> bool {
        self.part.is_some_and(|part| part.extent.overlaps(extent)) && !mutant!(CopiedUnderWrites)
    }

    fn write(&mut self, extent: ByteExtent, submission: Submission) {
        let is_copied = extent.start < self.copied && self.stage != Stage::GivenUp;
        if is_copied && !mutant!(CopiedPartNotMirrored) {
            return self.send_to_both(Some(extent), submission);
        }
        self.flights.begin(submission.id, Flight::alone(extent, &submission.operation));
        self.route(Side::Old, submission);
    }

    fn send_to_both(&mut self, extent: Option<ByteExtent>, submission: Submission) {
        self.flights.begin(submission.id, Flight::of_both(extent, &submission.operation));
        let id = SubmissionId::from_u64(submission.id.as_u64() | TWIN);
        let twin = Submission { id, operation: submission.operation.clone() };
        self.route(Side::Old, submission);
        self.route(Side::New, twin);
    }

    fn route(&mut self, side: Side, submission: Submission) {
        self.outbox.push_back(Routed { side, submission });
    }

    fn release(&mut self) {
        for submission in core::mem::take(&mut self.held) {
            self.handle_submission(submission);
        }
    }
}

const fn old_id(id: SubmissionId) -> SubmissionId {
    SubmissionId::from_u64(id.as_u64() & !TWIN)
}

/// The extent of the cache device that an operation changes.
fn written(operation: &DeviceOperation) -> Option<ByteExtent> {
    match operation {
        DeviceOperation::Write { offset, pieces, .. } => {
            Some(ByteExtent { start: *offset, length: pieces.length() })
        }
        DeviceOperation::WriteMetadata { offset, bytes, pieces, .. } => {
            let data: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
            Some(ByteExtent { start: *offset, length: bytes.len() as u64 + data })
        }
        DeviceOperation::Discard { extent, .. } | DeviceOperation::WriteZeroes { extent, .. } => {
            Some(*extent)
        }
        DeviceOperation::Read { .. }
        | DeviceOperation::ReadMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => None,
    }
}

fn is_flush(operation: &DeviceOperation) -> bool {
    matches!(operation, DeviceOperation::Flush { .. })
}
