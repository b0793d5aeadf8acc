//! Erases the torn blocks of the journal before the engine serves any request.
//!
//! A power cut may leave some sectors of a journal block, so that recovery ignores it. If the next journal block
//! overwrote a torn one and were torn as well, old and new sectors together could make a whole block, with records that
//! would take effect one life late.
//!
//! Invariants:
//! * J-2: no torn journal block outlives recovery, unless the cache device is out of service.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::Service;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::inflight::purpose::{Purpose, RecoveryRead};
use crate::request::Durability;
use crate::state::State;
use crate::units::BLOCK_BYTES;

/// Submits a write of zeroes for each torn block and returns their count. A cache device out of service gets none.
pub(super) fn begin(state: &mut State) -> u32 {
    let torn = core::mem::take(&mut state.recovering().torn);
    if state.settings.service == Service::Out {
        return 0;
    }
    state.recovering().erasing = u32::try_from(torn.len()).expect("the ring has fewer than 2^32 blocks");
    for offset in torn {
        let operation = DeviceOperation::WriteMetadata {
            device: Device::Cache,
            offset,
            bytes: vec![0; BLOCK_BYTES].into_boxed_slice(),
            pieces: Vec::new(),
            durability: Durability::Durable,
        };
        state.submit(Purpose::Recovery(RecoveryRead::Erase), operation);
    }
    state.recovering().erasing
}

/// Returns the number of writes in flight.
pub(super) fn on_written(state: &mut State, result: Result<(), DeviceError>) -> u32 {
    state.device.counters.errors += u64::from(result.is_err());
    let recovery = state.recovering();
    recovery.erasing -= 1;
    recovery.has_failed_erasing |= result.is_err();
    recovery.erasing
}
