//! Operations on devices in this process.

use kickcache_engine::device::DeviceError;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::driver::operation::{self, Operation, Work};
use crate::driver::virtual_device::{VirtualDevice, VirtualOperation};

/// Hands an operation to a device in this process.
pub(super) fn start(
    device: &mut dyn VirtualDevice,
    now: Instant,
    token: u32,
    operation: &mut Operation,
) -> Result<(), DeviceError> {
    let extent = ByteExtent { start: operation.offset, length: operation.length };
    let work = match operation.work {
        Work::Read | Work::ReadMetadata => VirtualOperation::Read(extent),
        Work::Flush => VirtualOperation::Flush,
        Work::Write(_) => {
            let mut offset = extent.start;
            for stretch in &operation.stretches {
                let bytes = operation::bytes(stretch);
                device.write(offset, bytes)?;
                offset += u64::try_from(bytes.len()).expect("fits");
            }
            VirtualOperation::Write(extent)
        }
        Work::Discard(_) | Work::Zero { .. } => {
            device.zero(extent)?;
            VirtualOperation::Zero(extent)
        }
    };
    device.submit(now, u64::from(token), work);
    Ok(())
}

/// Fetches the bytes of a read that ended.
pub(super) fn finish(device: &mut dyn VirtualDevice, operation: &mut Operation) -> Result<(), DeviceError> {
    if operation.work != Work::Read && operation.work != Work::ReadMetadata {
        return Ok(());
    }
    let mut offset = operation.offset;
    for stretch in &mut operation.stretches {
        let bytes = operation::bytes_mut(stretch);
        device.read(offset, bytes)?;
        offset += u64::try_from(bytes.len()).expect("fits");
    }
    Ok(())
}
