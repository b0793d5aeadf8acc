//! The kernel's structs and numbers of ublk (`linux/ublk_cmd.h`), written by hand.
//!
//! The commands carry their struct's size and direction, as those of ioctl do: kernels built without the
//! older bare numbers accept only commands of this form. The flag [`CMD_IOCTL_ENCODE`] shows that a device
//! accepts this form (Linux 6.4).

/// A control command: 32 of the 80 bytes at the end of a submission on `/dev/ublk-control`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ControlCommand {
    pub(crate) device_id: u32,
    /// The queue, or [`NO_QUEUE`] for a command about the whole device.
    pub(crate) queue_id: u16,
    /// Bytes at `address`.
    pub(crate) length: u16,
    pub(crate) address: u64,
    /// The command's immediate argument: the pid for starting and for the end of a recovery, the sectors of a
    /// new size.
    pub(crate) data: u64,
    /// Bytes of the device's path before the buffer's content; for unprivileged devices only.
    pub(crate) path_length: u16,
    pub(crate) padding: u16,
    pub(crate) reserved: u32,
}

/// The properties of a device.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DeviceInfo {
    pub(crate) queue_count: u16,
    pub(crate) queue_depth: u16,
    pub(crate) state: u16,
    pub(crate) padding: u16,
    /// Bytes of the largest request.
    pub(crate) request_bytes_max: u32,
    pub(crate) device_id: u32,
    pub(crate) server_pid: i32,
    pub(crate) padding_2: u32,
    pub(crate) flags: u64,
    pub(crate) server_flags: u64,
    pub(crate) owner_uid: u32,
    pub(crate) owner_gid: u32,
    pub(crate) reserved: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct IoDescription {
    /// The operation in the lowest 8 bits, flags above.
    pub(crate) operation_and_flags: u32,
    pub(crate) sector_count: u32,
    pub(crate) first_sector: u64,
    /// The buffer that was passed when the request was fetched.
    pub(crate) address: u64,
}

/// Fetches a request, or answers one and fetches the next with its tag: 16 bytes at the end of a submission.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct IoCommand {
    pub(crate) queue_id: u16,
    pub(crate) tag: u16,
    /// The bytes done, or a negative errno.
    pub(crate) result: i32,
    /// Where the kernel puts the data of a write, and takes that of a read.
    pub(crate) address: u64,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Parameters {
    pub(crate) length: u32,
    /// Bits for the parts below that are valid.
    pub(crate) types: u32,
    pub(crate) basic: BasicParameters,
    pub(crate) discard: DiscardParameters,
    pub(crate) padding: u32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BasicParameters {
    pub(crate) attributes: u32,
    pub(crate) logical_block_shift: u8,
    pub(crate) physical_block_shift: u8,
    pub(crate) io_optimal_shift: u8,
    pub(crate) io_minimal_shift: u8,
    pub(crate) sectors_max: u32,
    pub(crate) chunk_sectors: u32,
    pub(crate) device_sectors: u64,
    pub(crate) virtual_boundary_mask: u64,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DiscardParameters {
    /// The alignment of discards, in bytes.
    pub(crate) alignment: u32,
    /// The granularity of discards, in bytes.
    pub(crate) granularity: u32,
    pub(crate) discard_sectors_max: u32,
    pub(crate) write_zeroes_sectors_max: u32,
    pub(crate) segments_max: u16,
    pub(crate) reserved: u16,
}

impl ControlCommand {
    pub(crate) fn with_buffer<T>(device_id: u32, buffer: *mut T) -> ControlCommand {
        let length = u16::try_from(size_of::<T>()).expect("the structs are small");
        let address = buffer.expose_provenance() as u64;
        ControlCommand { device_id, queue_id: NO_QUEUE, length, address, ..ControlCommand::default() }
    }

    #[expect(clippy::host_endian_bytes, reason = "the kernel of this host reads them")]
    pub(crate) fn bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&self.device_id.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.queue_id.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes[24..26].copy_from_slice(&self.path_length.to_ne_bytes());
        bytes
    }
}

impl IoCommand {
    #[expect(clippy::host_endian_bytes, reason = "the kernel of this host reads them")]
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&self.queue_id.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.address.to_ne_bytes());
        bytes
    }
}

pub(crate) const NO_QUEUE: u16 = u16::MAX;

const READS: u32 = 2;
const READS_AND_WRITES: u32 = 3;

/// The number of a command of the type `u`, encoded as by the kernel's `_IOR` and `_IOWR`.
const fn encoded(direction: u32, size: u32, number: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

pub(crate) const GET_DEV_INFO: u32 = encoded(READS, 32, 0x02);
pub(crate) const GET_PARAMS: u32 = encoded(READS, 32, 0x09);
pub(crate) const ADD_DEV: u32 = encoded(READS_AND_WRITES, 32, 0x04);
pub(crate) const DEL_DEV: u32 = encoded(READS_AND_WRITES, 32, 0x05);
pub(crate) const DEL_DEV_ASYNC: u32 = encoded(READS, 32, 0x14);
pub(crate) const START_DEV: u32 = encoded(READS_AND_WRITES, 32, 0x06);
pub(crate) const STOP_DEV: u32 = encoded(READS_AND_WRITES, 32, 0x07);
pub(crate) const SET_PARAMS: u32 = encoded(READS_AND_WRITES, 32, 0x08);
pub(crate) const START_USER_RECOVERY: u32 = encoded(READS_AND_WRITES, 32, 0x10);
pub(crate) const END_USER_RECOVERY: u32 = encoded(READS_AND_WRITES, 32, 0x11);
pub(crate) const UPDATE_SIZE: u32 = encoded(READS_AND_WRITES, 32, 0x15);
pub(crate) const FETCH: u32 = encoded(READS_AND_WRITES, 16, 0x20);
pub(crate) const COMMIT_AND_FETCH: u32 = encoded(READS_AND_WRITES, 16, 0x21);

pub(crate) const USER_RECOVERY: u64 = 1 << 3;
pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
pub(crate) const CMD_IOCTL_ENCODE: u64 = 1 << 6;

pub(crate) const PARAMETERS_LENGTH: u32 = 64;

pub(crate) const TYPE_BASIC: u32 = 1;
pub(crate) const TYPE_DISCARD: u32 = 1 << 1;

pub(crate) const READ_ONLY: u32 = 1;
pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
pub(crate) const FUA_ATTRIBUTE: u32 = 1 << 3;

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn structs_have_the_kernels_sizes() {
        assert_eq!(size_of::<ControlCommand>(), 32);
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(size_of::<IoDescription>(), 24);
        assert_eq!(size_of::<IoCommand>(), 16);
        assert_eq!(size_of::<BasicParameters>(), 32);
        assert_eq!(size_of::<DiscardParameters>(), 20);
        assert_eq!(size_of::<Parameters>(), 64);
    }

    #[test]
    fn fields_have_the_offsets_of_the_kernel() {
        assert_eq!(offset_of!(ControlCommand, address), 8);
        assert_eq!(offset_of!(ControlCommand, path_length), 24);
        assert_eq!(offset_of!(DeviceInfo, request_bytes_max), 8);
        assert_eq!(offset_of!(DeviceInfo, server_pid), 16);
        assert_eq!(offset_of!(DeviceInfo, flags), 24);
        assert_eq!(offset_of!(DeviceInfo, server_flags), 32);
        assert_eq!(offset_of!(IoDescription, first_sector), 8);
        assert_eq!(offset_of!(IoCommand, address), 8);
        assert_eq!(offset_of!(Parameters, basic), 8);
        assert_eq!(offset_of!(BasicParameters, device_sectors), 16);
        assert_eq!(offset_of!(Parameters, discard), 40);
    }

    /// As a C program prints them that includes the kernel's header.
    #[test]
    fn commands_are_those_of_the_kernels_macros() {
        assert_eq!(GET_DEV_INFO, 0x8020_7502);
        assert_eq!(ADD_DEV, 0xC020_7504);
        assert_eq!(FETCH, 0xC010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xC010_7521);
    }
}
