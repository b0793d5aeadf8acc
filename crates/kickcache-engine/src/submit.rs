//! Submissions, and their counters.

use crate::device::{Checksums, Device, DeviceOperation, Piece, Pieces};
use crate::inflight::pulse::PulseId;
use crate::inflight::purpose::Purpose;
use crate::state::State;

impl State {
    pub(crate) fn submit(&mut self, purpose: Purpose, operation: DeviceOperation) {
        self.count_submission(&operation);
        self.submissions.add(self.now, PulseId::of(operation.device()), purpose, operation);
    }

    #[inline]
    pub(crate) fn submit_hit(&mut self, purpose: Purpose, offset: u64, memory: Piece) {
        self.count_read(Device::Cache, u64::from(memory.length));
        let (device, pieces) = (Device::Cache, Pieces::One(memory));
        let operation = DeviceOperation::Read { device, offset, pieces, checksums: Checksums::Compute };
        self.submissions.add(self.now, PulseId::CACHE, purpose, operation);
    }

    fn count_submission(&mut self, operation: &DeviceOperation) {
        match operation {
            DeviceOperation::Read { device, pieces, .. } => self.count_read(*device, pieces.length()),
            DeviceOperation::ReadMetadata { extent } => self.count_read(Device::Cache, extent.length),
            DeviceOperation::Write { device, pieces, .. } => self.count_write(*device, pieces.length()),
            DeviceOperation::WriteMetadata { device, bytes, pieces, .. } => {
                let data: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
                self.count_write(*device, bytes.len() as u64 + data);
            }
            DeviceOperation::WriteZeroes { device, extent, .. } => self.count_write(*device, extent.length),
            DeviceOperation::Flush { device: Device::Cache } => self.device.counters.flushes += 1,
            DeviceOperation::Flush { device: Device::Origin(volume) } => {
                self.volumes.get_mut(*volume).counters.origin_flushes += 1;
            }
            DeviceOperation::Flush { device: Device::Successor | Device::RedoJournal }
            | DeviceOperation::Discard { .. }
            | DeviceOperation::NoteOutOfService { .. }
            | DeviceOperation::Copy { .. }
            | DeviceOperation::Zero { .. } => {}
        }
    }

    fn count_read(&mut self, device: Device, bytes: u64) {
        match device {
            Device::Cache | Device::Successor => {
                self.device.counters.reads += 1;
                self.device.counters.read_bytes += bytes;
            }
            Device::Origin(volume) => {
                let counters = &mut self.volumes.get_mut(volume).counters;
                counters.origin_reads += 1;
                counters.origin_read_bytes += bytes;
            }
            Device::RedoJournal => {}
        }
    }

    fn count_write(&mut self, device: Device, bytes: u64) {
        match device {
            Device::Cache | Device::Successor => {
                self.device.counters.writes += 1;
                self.device.counters.write_bytes += bytes;
                self.wear.on_written(self.now, bytes);
            }
            Device::Origin(volume) => {
                let counters = &mut self.volumes.get_mut(volume).counters;
                counters.origin_writes += 1;
                counters.origin_write_bytes += bytes;
            }
            Device::RedoJournal => {}
        }
    }

    /// Submits an operation on the driver's memory that has no completion.
    pub(crate) fn submit_memory(&mut self, operation: DeviceOperation) {
        self.submissions.add_unanswered(operation);
    }
}
