//! The record that the cache device is out of service.

use alloc::vec::Vec;

use crate::device::DeviceError;
use crate::ids::RequestSlot;
use crate::stats::Record;
use crate::time::Instant;
use crate::units::VolumeSet;

/// A place for the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Keeper {
    /// The record that is being written to this place.
    pub(crate) in_flight: Option<VolumeSet>,
    /// The record that this place has.
    pub(crate) keeps: Option<VolumeSet>,
    /// The last try failed, and the next one is not due.
    pub(crate) has_failed: bool,
}

impl Keeper {
    /// Whether the record must be written to this place.
    pub(crate) fn wants(&self, incomplete: VolumeSet) -> bool {
        self.in_flight.is_none() && !self.has_failed && self.keeps != Some(incomplete)
    }

    pub(crate) fn end(&mut self, result: Result<(), DeviceError>) {
        let told = self.in_flight.take();
        if result.is_ok() || mutant!(FailedMarkCounts) {
            self.keeps = told;
        }
        self.has_failed = result.is_err();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Marking {
    /// The engine was opened with the device out of service.
    pub(crate) is_known: bool,
    /// The volumes with origins that may lack data of the cache device; `None` while it is in service.
    pub(crate) incomplete: Option<VolumeSet>,
    pub(crate) copies: [Keeper; 2],
    pub(crate) host: Keeper,
    /// When the host gets the record although no mark has failed.
    pub(crate) patience_until: Option<Instant>,
    /// When failed keepers are tried again.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) waiting: Vec<RequestSlot>,
}

impl Marking {
    /// Whether no restart will treat the cache device as in service.
    pub(crate) fn is_recorded(&self) -> bool {
        let both = self.copies.iter().all(|copy| copy.keeps.is_some());
        self.is_known || both || self.host.keeps.is_some()
    }

    /// Whether the record cannot be expected before the next try.
    pub(crate) fn is_hopeless(&self) -> bool {
        let marks_may = self.copies.iter().all(|copy| copy.keeps.is_some() || !copy.has_failed);
        let marks_may = marks_may && self.patience_until.is_some();
        !self.is_recorded() && !marks_may && self.host.has_failed
    }

    /// The place of the record, while the cache device is out of service.
    pub(crate) fn record(&self) -> Record {
        match () {
            () if self.is_known => Record::ByOrder,
            () if self.copies.iter().all(|copy| copy.keeps.is_some()) => Record::OnDevice,
            () if self.host.keeps.is_some() => Record::WithHost,
            () if self.is_hopeless() => Record::Failed,
            () => Record::Pending,
        }
    }

    pub(crate) fn keepers(&mut self) -> impl Iterator<Item = &mut Keeper> {
        self.copies.iter_mut().chain(Some(&mut self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::VolumeId;

    fn told(keeper: &mut Keeper, result: Result<(), DeviceError>) {
        keeper.in_flight = Some(VolumeSet::default());
        keeper.end(result);
    }

    #[test]
    fn the_record_needs_both_marks_or_the_host() {
        let mut marking = Marking { patience_until: Some(Instant::ZERO), ..Marking::default() };
        told(&mut marking.copies[0], Ok(()));
        assert_eq!((marking.is_recorded(), marking.record()), (false, Record::Pending));
        told(&mut marking.copies[1], Err(DeviceError::Io));
        assert_eq!(marking.record(), Record::Pending, "the host has no request");
        told(&mut marking.host, Err(DeviceError::Io));
        assert_eq!(marking.record(), Record::Failed);
        told(&mut marking.host, Ok(()));
        assert_eq!(marking.record(), Record::WithHost);
        told(&mut marking.copies[1], Ok(()));
        assert_eq!(marking.record(), Record::OnDevice);
    }

    #[test]
    fn a_keeper_gets_each_change_of_volumes_once() {
        let (none, one) = (VolumeSet::default(), [VolumeId::new(3)].into_iter().collect());
        let mut keeper = Keeper::default();
        assert!(keeper.wants(none));
        keeper.in_flight = Some(none);
        assert!(!keeper.wants(one));
        keeper.end(Ok(()));
        assert_eq!((keeper.wants(none), keeper.wants(one)), (false, true));
        told(&mut keeper, Err(DeviceError::Io));
        assert_eq!((keeper.wants(one), keeper.keeps), (false, Some(none)), "it keeps its record");
    }
}
