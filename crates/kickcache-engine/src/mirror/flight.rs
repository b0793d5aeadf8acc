//! Writes and flushes of a cache device that is mirrored, until they have ended.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::device::{DeviceError, DeviceOperation, SubmissionId};
use crate::mirror::ending::Ending;
use crate::mirror::side::Side;
use crate::units::ByteExtent;

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The extent of a write or a discard; `None` for a flush.
    extent: Option<ByteExtent>,
    /// An error of a discard on the new device is harmless.
    is_discard: bool,
    on_old: Progress,
    on_new: Progress,
    result: Result<(), DeviceError>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    UnderWay,
    Over,
}

#[derive(Default, Debug)]
pub(super) struct Released {
    /// Operations in flight on the new device.
    pub(super) twins: Vec<SubmissionId>,
    /// Ends of operations that had completed on the old device.
    pub(super) endings: Vec<Ending>,
}

#[derive(Default, Debug)]
pub(super) struct Flights {
    table: BTreeMap<SubmissionId, Flight>,
}

impl Flight {
    /// On the old device only.
    pub(super) fn alone(extent: ByteExtent, operation: &DeviceOperation) -> Flight {
        Flight { on_new: Progress::Over, ..Flight::of_both(Some(extent), operation) }
    }

    /// On both.
    pub(super) fn of_both(extent: Option<ByteExtent>, operation: &DeviceOperation) -> Flight {
        Flight {
            extent,
            is_discard: matches!(operation, DeviceOperation::Discard { .. }),
            on_old: Progress::UnderWay,
            on_new: Progress::UnderWay,
            result: Ok(()),
        }
    }
}

impl Flights {
    pub(super) fn begin(&mut self, id: SubmissionId, flight: Flight) {
        let before = self.table.insert(id, flight);
        assert!(before.is_none(), "a submission begins once");
    }

    /// The end of an operation on a device.
    pub(super) fn end(&mut self, id: SubmissionId, side: Side, result: Result<(), DeviceError>) -> Ending {
        let Some(flight) = self.table.get_mut(&id) else { return Ending::Passed };
        match side {
            Side::Old => (flight.on_old, flight.result) = (Progress::Over, flight.result.and(result)),
            Side::New if flight.is_discard => flight.on_new = Progress::Over,
            Side::New => (flight.on_new, flight.result) = (Progress::Over, flight.result.and(result)),
        }
        if flight.on_old == Progress::UnderWay || flight.on_new == Progress::UnderWay {
            return Ending::Awaited;
        }
        let result = flight.result;
        self.table.remove(&id);
        Ending::Ended(id, result)
    }

    /// Ends the wait for the new device; returns its operations in flight, and the ends of operations that waited only
    /// for it.
    pub(super) fn release_twins(&mut self) -> Released {
        let mut released = Released::default();
        for (id, flight) in &mut self.table {
            if flight.on_new == Progress::UnderWay {
                flight.on_new = Progress::Over;
                released.twins.push(*id);
                if flight.on_old == Progress::Over {
                    let is_forgiven = flight.result.is_err() && mutant!(DesertedErrorForgiven);
                    let result = if is_forgiven { Ok(()) } else { flight.result };
                    released.endings.push(Ending::Ended(*id, result));
                }
            }
        }
        self.table.retain(|_, flight| flight.on_old == Progress::UnderWay);
        released
    }

    pub(super) fn has(&self, id: SubmissionId) -> bool {
        self.table.contains_key(&id)
    }

    pub(super) fn is_discard(&self, id: SubmissionId) -> bool {
        self.table.get(&id).is_some_and(|flight| flight.is_discard)
    }

    /// Whether any write or discard touches an extent.
    pub(super) fn touch(&self, extent: ByteExtent) -> bool {
        self.table.values().filter_map(|flight| flight.extent).any(|other| extent.overlaps(other))
    }

    pub(super) fn has_twins(&self) -> bool {
        self.table.values().any(|flight| flight.on_new == Progress::UnderWay)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
