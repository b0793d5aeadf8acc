//! A cache device that is to take over from another one, while an engine uses that: what the engine submits goes to both devices, as
//! far as the old one has been copied.
//!
//! It stands between an engine and its driver, and neither knows: submissions go in and come out with the side that they are for,
//! and so do their ends. The host copies, flushes, and writes superblocks; when, it is told here.
//!
//! Invariants:
//! * M-1: what has been copied is on both devices once nothing is in flight: a write that touches it goes to both, and ends when
//!   both have ended.
//! * M-2: a part is copied while no write is in flight there; one that would be waits.
//! * M-3: once the old device may say that it was replaced, what fails on either has failed.

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

/// Bytes that are copied at once: writes into them wait for as long as that takes.
pub const COPY_BYTES: u64 = 1 << 20;
/// Marks what goes to the new device: the engine numbers less than this many submissions at a time.
const TWIN: u64 = 1 << 31;

/// A submission, and for which device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// Which of the two.
    pub side: Side,
    /// What to do.
    pub submission: Submission,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The old device is copied, or was.
    Copying,
    /// The old device may say that it was replaced.
    Sealed,
    /// What the engine wants of its cache device waits until nothing is in flight there.
    Parting,
    /// The new device is let go of.
    GivenUp,
}

/// What is copied at the moment.
#[derive(Clone, Copy, Debug)]
struct Part {
    extent: ByteExtent,
    /// The host was told.
    is_begun: bool,
}

/// Two devices that become one copy of the other.
#[derive(Debug)]
pub struct Mirror {
    stage: Stage,
    /// Everything before this has been copied, or is the host's.
    copied: u64,
    extent: ByteExtent,
    part: Option<Part>,
    /// Writes that were in flight before this began, so that nobody knows where.
    unknown: BTreeSet<SubmissionId>,
    flights: Flights,
    /// In flight on a new device that nobody waits for.
    deserted: BTreeSet<SubmissionId>,
    /// What has ended on the new device.
    new_ends: u64,
    held: VecDeque<Submission>,
    outbox: VecDeque<Routed>,
    /// The new device has failed.
    failure: Option<DeviceError>,
}

impl Mirror {
    /// Begins with nothing copied; `in_flight` are the submissions for the cache device that the driver has already.
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

    /// Takes a submission of the engine.
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

    /// Takes the end of a submission.
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

    /// The next part to be copied, and flushed by whoever seals this later. The next one comes when this one was.
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

    /// The part was copied.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn handle_copied(&mut self) {
        let part = self.part.take().expect("a part is copied once it was asked for");
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

    /// Whether all has been copied.
    pub fn is_copied(&self) -> bool {
        self.copied == self.extent.end()
    }

    /// How the new device has failed, if it has; once sealed, either of them, since [`Mirror::take_failure`].
    pub fn failure(&self) -> Option<DeviceError> {
        self.failure
    }

    /// Whether either device has failed since it was sealed, or since the last call. A flush that failed may have let go of what the
    /// host had written: superblocks are written and flushed again until nothing has failed meanwhile.
    pub fn take_failure(&mut self) -> Option<DeviceError> {
        self.failure.take()
    }

    /// From here on, what fails on the new device has failed. Everything has been copied, and was flushed then.
    ///
    /// # Panics
    /// M-3: if that is not so.
    pub fn seal(&mut self) {
        assert!(self.stage == Stage::Copying && self.is_copied(), "M-3: not all has been copied");
        assert!(self.failure.is_none(), "M-3: the new device has failed");
        self.stage = Stage::Sealed;
    }

    /// The new device is the cache: nothing more is asked of the old one.
    ///
    /// # Panics
    /// M-3: if it was not sealed.
    pub fn part(&mut self) {
        assert!(self.stage == Stage::Sealed, "M-3: a device takes over once it is known to have all");
        self.stage = Stage::Parting;
    }

    /// Once nothing is in flight on either device: what waited, for the new one alone.
    pub fn into_held(self) -> impl Iterator<Item = Submission> {
        debug_assert!(self.stage == Stage::Parting && self.flights.is_empty());
        self.held.into_iter()
    }

    /// Lets go of the new device.
    ///
    /// # Panics
    /// M-3: if the old one may say that it was replaced.
    pub fn give_up(&mut self) {
        assert!(self.stage == Stage::Copying || self.stage == Stage::GivenUp, "M-3: there is no way back");
        self.stage = Stage::GivenUp;
        self.part = None;
        self.release();
    }

    /// Lets go of the new device, which does not answer, and waits no longer for what is in flight there; what was not sent yet is not.
    /// Gives what has ended so.
    ///
    /// That may be read from memory that the engine uses for something else by then: the new device is not to be used before
    /// [`Mirror::is_quiet`], and the memory must not go away.
    ///
    /// # Panics
    /// M-3: if the old one may say that it was replaced.
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

    /// How much has ended on the new device, if something waits there.
    pub fn waits_for_new(&self) -> Option<u64> {
        self.flights.has_twins().then_some(self.new_ends)
    }

    /// Whether something waits for the part that is being copied.
    pub fn waits_for_part(&self) -> bool {
        self.stage == Stage::Copying && !self.held.is_empty()
    }

    /// Whether nothing is in flight that only this knows, so that it can go once it was given up.
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

    /// What waited for a part goes on.
    fn release(&mut self) {
        for submission in core::mem::take(&mut self.held) {
            self.handle_submission(submission);
        }
    }
}

/// What a submission is called on the old device.
const fn old_id(id: SubmissionId) -> SubmissionId {
    SubmissionId::from_u64(id.as_u64() & !TWIN)
}

/// Where an operation changes the cache device.
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
