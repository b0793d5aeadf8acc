//! The service mark: whether the cache device is in service.
//!
//! A device that was put out of service may have older data than its origins. A device counts as in service only with
//! *both* marks undamaged and in the state "in service".

use alloc::vec::Vec;

use crate::format::bytes::{Reader, Writer};
use crate::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE};
use crate::units::{BLOCK_BYTES, VolumeSet};

/// Byte offsets of the marks: each after a superblock copy.
pub const MARK_OFFSETS: [u64; 2] =
    [SUPERBLOCK_OFFSETS[0] + SUPERBLOCK_SIZE as u64, SUPERBLOCK_OFFSETS[1] + SUPERBLOCK_SIZE as u64];
/// Bytes of a mark.
pub const MARK_BYTES: usize = BLOCK_BYTES;
/// The bytes that a mark starts with.
pub const MARK_MAGIC: [u8; 8] = *b"KICKMARK";

const IN_SERVICE: u8 = 1;
const OUT_OF_SERVICE: u8 = 2;

/// Whether a cache device is in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceMark {
    /// The cache device is in service.
    InService,
    /// The cache device is out of service until it is formatted.
    OutOfService {
        /// Volumes that may have data on this device only.
        incomplete: VolumeSet,
    },
}

impl ServiceMark {
    /// The bytes of one copy, always [`MARK_BYTES`] long.
    pub fn encode(self, uuid: [u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(MARK_MAGIC, MARK_BYTES);
        writer.put(&uuid);
        let (kind, incomplete) = match self {
            ServiceMark::InService => (IN_SERVICE, VolumeSet::default()),
            ServiceMark::OutOfService { incomplete } => (OUT_OF_SERVICE, incomplete),
        };
        writer.put_u8(kind);
        writer.put_u8(0);
        writer.put(&incomplete.bits().to_le_bytes());
        writer.finish()
    }

    /// Combines both copies of the mark of a cache device. A copy that is damaged, or belongs to another device, may
    /// have had any content.
    pub fn decode(copies: [&[u8]; 2], uuid: [u8; 16]) -> ServiceMark {
        let found = copies.map(|copy| decode_copy(copy, uuid));
        if found == [Some(ServiceMark::InService); 2] {
            return ServiceMark::InService;
        }
        let told = found.into_iter().flatten().filter_map(|mark| match mark {
            ServiceMark::InService => None,
            ServiceMark::OutOfService { incomplete } => Some(incomplete),
        });
        ServiceMark::OutOfService { incomplete: told.fold(VolumeSet::ALL, VolumeSet::intersection) }
    }
}

/// Whether these bytes are one copy of a mark with "in service", of any device.
pub fn is_in_service_mark(bytes: &[u8]) -> bool {
    parse_copy(bytes).is_some_and(|copy| copy.mark == ServiceMark::InService)
}

struct MarkCopy {
    uuid: [u8; 16],
    mark: ServiceMark,
}

fn decode_copy(bytes: &[u8], uuid: [u8; 16]) -> Option<ServiceMark> {
    parse_copy(bytes).filter(|copy| copy.uuid == uuid).map(|copy| copy.mark)
}

fn parse_copy(bytes: &[u8]) -> Option<MarkCopy> {
    let mut reader = Reader::open(MARK_MAGIC, bytes.get(..MARK_BYTES)?)?;
    let uuid = reader.take_uuid()?;
    let kind = reader.take_u8()?;
    reader.take_u8()?;
    let incomplete = VolumeSet::from_bits(u16::from_le_bytes(reader.take(2)?.try_into().ok()?));
    let mark = match kind {
        IN_SERVICE => ServiceMark::InService,
        OUT_OF_SERVICE => ServiceMark::OutOfService { incomplete },
        _ => return None,
    };
    Some(MarkCopy { uuid, mark })
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests {
    use super::*;
    use crate::units::VolumeId;

    const UUID: [u8; 16] = [7; 16];

    fn out(volumes: &[u8]) -> ServiceMark {
        let incomplete = volumes.iter().map(|number| VolumeId::new(*number)).collect();
        ServiceMark::OutOfService { incomplete }
    }

    fn read(first: &[u8], second: &[u8]) -> ServiceMark {
        ServiceMark::decode([first, second], UUID)
    }

    #[test]
    fn only_two_whole_marks_mean_in_service() {
        let good = ServiceMark::InService.encode(UUID);
        let marked = out(&[1, 15]).encode(UUID);
        assert_eq!(read(&good, &good), ServiceMark::InService);
        assert_eq!(read(&good, &marked), out(&[1, 15]));
        assert_eq!(read(&marked, &good), out(&[1, 15]));
        let unknown = ServiceMark::OutOfService { incomplete: VolumeSet::ALL };
        for bad in [&[0; MARK_BYTES][..], &good[..100], &ServiceMark::InService.encode([8; 16])] {
            assert_eq!((read(&good, bad), read(bad, &good)), (unknown, unknown));
            assert_eq!(read(&marked, bad), out(&[1, 15]));
        }
    }

    #[test]
    fn of_two_marks_the_newer_names_fewer_volumes() {
        assert_eq!(read(&out(&[0, 2]).encode(UUID), &out(&[2]).encode(UUID)), out(&[2]));
        assert_eq!(read(&out(&[]).encode(UUID), &out(&[2]).encode(UUID)), out(&[]));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_never_in_service() {
        let good = ServiceMark::InService.encode(UUID);
        for byte in 0..MARK_BYTES {
            let mut bad = good.clone();
            bad[byte] ^= 1 << (byte % 8);
            assert_ne!(read(&bad, &good), ServiceMark::InService, "byte {byte}");
        }
    }
}
