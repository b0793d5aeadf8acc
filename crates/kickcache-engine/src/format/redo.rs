//! The redo journal of a consistency group: dirty blocks of one instant, on a device that survives the loss of the cache
//! device.
//!
//! The journal is a ring of slots of 256 KiB; the first 256 KiB of the device hold the superblock and the tail. A cut is
//! stored as a *group*: chunks, a slot each, and then the commit, in a slot of its own. A group without its commit does
//! not count. Positions of slots only grow: a slot that was not written since the ring's last turn has a smaller position
//! than its place.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::config::VOLUME_COUNT_MAX;
use crate::error::Error;
use crate::format::bytes::{Reader, Writer, crc32c};
use crate::format::superblock::{SUPERBLOCK_SIZE, VOLUME_BYTES, VolumeRecord};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, BlockKey, Checksum, SEQUENCE_LIMIT};

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 256 << 10;
/// Most data blocks of a chunk: the slot without the block of the header.
pub const CHUNK_BLOCKS_MAX: usize = 63;
/// Least slots of a ring.
pub const SLOTS_MIN: u64 = 15;
/// The bytes that a superblock of a redo journal starts with.
pub const REDO_MAGIC: [u8; 8] = *b"KICKREDO";
/// Byte offsets of the superblock's copies, [`SUPERBLOCK_SIZE`] bytes each.
pub const REDO_SUPERBLOCK_OFFSETS: [u64; 2] = [0, 64 << 10];
/// Byte offsets of the two tails, 4096 bytes each.
pub const TAIL_OFFSETS: [u64; 2] = [128 << 10, 192 << 10];

const VERSION: u32 = 1;
const TAIL_MAGIC: [u8; 8] = *b"KICKRTAI";
const CHUNK_MAGIC: [u8; 8] = *b"KICKRCHU";
const COMMIT_MAGIC: [u8; 8] = *b"KICKRCOM";
const VOLUMES_AT: usize = 128;

const _: () = assert!((1 + CHUNK_BLOCKS_MAX as u64) * BLOCK_SIZE == SLOT_BYTES);
const _: () = assert!(64 + CHUNK_BLOCKS_MAX * 10 <= BLOCK_BYTES);
const _: () = assert!(VOLUMES_AT + VOLUME_COUNT_MAX * VOLUME_BYTES <= SUPERBLOCK_SIZE);

/// The size of a redo journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedoGeometry {
    /// Slots of the ring.
    pub slot_count: u64,
}

impl RedoGeometry {
    /// The geometry for a device of this many bytes; `None` if the device is too small.
    pub fn for_device(bytes: u64) -> Option<RedoGeometry> {
        let slot_count = bytes.checked_div(SLOT_BYTES)?.checked_sub(1)?;
        (slot_count >= SLOTS_MIN).then_some(RedoGeometry { slot_count })
    }

    /// Byte offset of the slot of a position.
    pub fn byte_offset(self, position: u64) -> u64 {
        let place = position.checked_rem(self.slot_count).expect("a ring has slots");
        place.saturating_add(1).saturating_mul(SLOT_BYTES)
    }
}

/// The constant part of a redo journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedoSuperblock {
    /// Random id of this format of the journal; every structure of the journal carries it.
    pub uuid: [u8; 16],
    /// Id of the cache device that the journal belongs to.
    pub cache_uuid: [u8; 16],
    /// The ring.
    pub geometry: RedoGeometry,
    /// The volumes of the group, as in the superblock of the cache device.
    pub volumes: Vec<VolumeRecord>,
}

impl RedoSuperblock {
    /// The bytes of one copy, [`SUPERBLOCK_SIZE`] long.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(REDO_MAGIC, SUPERBLOCK_SIZE);
        writer.put_u32(VERSION);
        writer.put(&self.uuid);
        writer.put(&self.cache_uuid);
        writer.put_u64(self.geometry.slot_count);
        writer.put_u32(u32::try_from(self.volumes.len()).expect("at most 16 volumes"));
        for (number, volume) in self.volumes.iter().enumerate() {
            writer.skip_to(number.saturating_mul(VOLUME_BYTES).saturating_add(VOLUMES_AT));
            volume.put(&mut writer);
        }
        writer.finish()
    }

    /// The superblock from its copies; `device_size` is the present size of the device in bytes.
    ///
    /// # Errors
    /// [`Error::Redo`] if no copy is valid, or the device is smaller than the ring.
    pub fn decode(copies: [&[u8]; 2], device_size: u64) -> Result<RedoSuperblock, Error> {
        let refuse = |what: &str| Error::Redo { what: what.to_string() };
        let found = copies.into_iter().find_map(RedoSuperblock::decode_copy);
        let found =
            found.ok_or_else(|| refuse("it has no valid superblock; give the journal of this group"))?;
        let needed = found.geometry.slot_count.saturating_add(1).saturating_mul(SLOT_BYTES);
        if device_size < needed {
            return Err(refuse("its device is smaller than it was; restore the device's size"));
        }
        Ok(found)
    }

    fn decode_copy(bytes: &[u8]) -> Option<RedoSuperblock> {
        let bytes = bytes.get(..SUPERBLOCK_SIZE)?;
        let mut reader = Reader::open(REDO_MAGIC, bytes)?;
        if reader.take_u32()? != VERSION {
            return None;
        }
        let (uuid, cache_uuid) = (reader.take_uuid()?, reader.take_uuid()?);
        let slot_count = reader.take_u64()?;
        let count = usize::try_from(reader.take_u32()?).ok()?;
        let is_possible = (SLOTS_MIN..SEQUENCE_LIMIT / SLOT_BYTES).contains(&slot_count);
        if !is_possible || count > VOLUME_COUNT_MAX {
            return None;
        }
        let table = bytes.get(VOLUMES_AT..)?.chunks_exact(VOLUME_BYTES).take(count);
        let volumes = table.map(VolumeRecord::take).collect::<Option<_>>()?;
        Some(RedoSuperblock { uuid, cache_uuid, geometry: RedoGeometry { slot_count }, volumes })
    }
}

/// The oldest position of the ring that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RedoTail {
    /// Grows with every tail; the larger one wins.
    pub epoch: u64,
    /// Position of the first slot that may belong to a group which is not released.
    pub position: u64,
    /// The number of the last released group; later groups have larger numbers.
    pub released: u64,
    /// The instant of the last released cut, in nanoseconds since 1970: the origins have at least its data.
    pub instant: u64,
}

impl RedoTail {
    /// The bytes of a tail, one block.
    pub fn encode(&self, uuid: [u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(TAIL_MAGIC, BLOCK_BYTES);
        writer.put(&uuid);
        [self.epoch, self.position, self.released, self.instant]
            .into_iter()
            .for_each(|value| writer.put_u64(value));
        writer.finish()
    }

    /// The newest valid tail of a journal; `None` if no copy is valid.
    pub fn decode(copies: [&[u8]; 2], uuid: [u8; 16]) -> Option<RedoTail> {
        let tails = copies.into_iter().filter_map(|copy| RedoTail::decode_copy(copy, uuid));
        tails.max_by_key(|tail| tail.epoch)
    }

    fn decode_copy(bytes: &[u8], uuid: [u8; 16]) -> Option<RedoTail> {
        let mut reader = Reader::open(TAIL_MAGIC, bytes.get(..BLOCK_BYTES)?)?;
        if reader.take_uuid()? != uuid {
            return None;
        }
        let (epoch, position) = (reader.take_sequence()?.get(), reader.take_sequence()?.get());
        let (released, instant) = (reader.take_sequence()?.get(), reader.take_u64()?);
        Some(RedoTail { epoch, position, released, instant })
    }
}

/// A block of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedoBlock {
    /// The block.
    pub key: BlockKey,
    /// CRC32C of its data.
    pub checksum: Checksum,
}

/// The header of a chunk: the first block of a slot, before the data of the chunk's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedoChunk {
    /// Position of the slot.
    pub position: u64,
    /// Number of the group.
    pub group: u64,
    /// Number of the chunk in its group.
    pub number: u32,
    /// The blocks, ascending, at most [`CHUNK_BLOCKS_MAX`].
    pub blocks: Vec<RedoBlock>,
}

impl RedoChunk {
    /// The bytes of the header, one block.
    pub fn encode(&self, uuid: [u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(CHUNK_MAGIC, BLOCK_BYTES);
        writer.put(&uuid);
        writer.put_u64(self.position);
        writer.put_u64(self.group);
        writer.put_u32(self.number);
        writer.put_u32(u32::try_from(self.blocks.len()).expect("at most 63 blocks"));
        for block in &self.blocks {
            writer.put_key(block.key);
            writer.put_u32(block.checksum.get());
        }
        writer.finish()
    }

    /// A header of the journal with this id; `None` if the bytes are none.
    pub fn decode(bytes: &[u8], uuid: [u8; 16]) -> Option<RedoChunk> {
        let mut reader = Reader::open(CHUNK_MAGIC, bytes.get(..BLOCK_BYTES)?)?;
        if reader.take_uuid()? != uuid {
            return None;
        }
        let (position, group) = (reader.take_sequence()?.get(), reader.take_sequence()?.get());
        let number = reader.take_u32()?;
        let count = usize::try_from(reader.take_u32()?).ok()?;
        if count > CHUNK_BLOCKS_MAX {
            return None;
        }
        let block =
            |_| Some(RedoBlock { key: reader.take_key()?, checksum: Checksum::new(reader.take_u32()?) });
        let blocks: Vec<RedoBlock> = (0..count).map(block).collect::<Option<_>>()?;
        blocks.is_sorted_by(|one, other| one.key < other.key).then_some(RedoChunk {
            position,
            group,
            number,
            blocks,
        })
    }
}

/// The commit of a group: with it the group is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedoCommit {
    /// Position of the slot.
    pub position: u64,
    /// Number of the group.
    pub group: u64,
    /// Chunks of the group.
    pub chunk_count: u32,
    /// The instant of the cut, in nanoseconds since 1970.
    pub instant: u64,
    /// [`digest`] of the chunks.
    pub digest: Checksum,
}

impl RedoCommit {
    /// The bytes of the commit: two equal blocks, so that one of them may rot.
    pub fn encode(&self, uuid: [u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(COMMIT_MAGIC, BLOCK_BYTES);
        writer.put(&uuid);
        writer.put_u64(self.position);
        writer.put_u64(self.group);
        writer.put_u32(self.chunk_count);
        writer.put_u64(self.instant);
        writer.put_u32(self.digest.get());
        writer.finish().repeat(2)
    }

    /// A commit of the journal with this id; `None` if neither of the two blocks is one.
    pub fn decode(bytes: &[u8], uuid: [u8; 16]) -> Option<RedoCommit> {
        bytes.chunks_exact(BLOCK_BYTES).take(2).find_map(|block| RedoCommit::decode_copy(block, uuid))
    }

    fn decode_copy(bytes: &[u8], uuid: [u8; 16]) -> Option<RedoCommit> {
        let mut reader = Reader::open(COMMIT_MAGIC, bytes)?;
        if reader.take_uuid()? != uuid {
            return None;
        }
        Some(RedoCommit {
            position: reader.take_sequence()?.get(),
            group: reader.take_sequence()?.get(),
            chunk_count: reader.take_u32()?,
            instant: reader.take_u64()?,
            digest: Checksum::new(reader.take_u32()?),
        })
    }
}

/// CRC32C of the checksums of the headers, in the order of the chunks: it binds a commit to its chunks.
pub fn digest(headers: &[Checksum]) -> Checksum {
    let sums: Vec<u8> = headers.iter().flat_map(|sum| sum.get().to_le_bytes()).collect();
    crc32c(&sums)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, VolumeId};

    const UUID: [u8; 16] = [7; 16];

    fn superblock() -> RedoSuperblock {
        let volume = VolumeRecord {
            id: VolumeId::new(3),
            name: "v".to_string(),
            origin_size: 1 << 30,
            origin_identity: "/dev/v".to_string(),
        };
        let geometry = RedoGeometry::for_device(16 << 20).unwrap();
        RedoSuperblock { uuid: UUID, cache_uuid: [1; 16], geometry, volumes: [volume].into() }
    }

    fn chunk() -> RedoChunk {
        let block = |number| RedoBlock {
            key: BlockKey::new(VolumeId::new(0), BlockIndex::new(number)),
            checksum: Checksum::new(u32::try_from(number).unwrap()),
        };
        RedoChunk { position: 9, group: 4, number: 1, blocks: (10..73).map(block).collect() }
    }

    fn commit() -> RedoCommit {
        RedoCommit { position: 10, group: 4, chunk_count: 2, instant: 99, digest: Checksum::new(8) }
    }

    #[test]
    fn structures_survive_the_round_trip() {
        let bytes = superblock().encode();
        assert_eq!(RedoSuperblock::decode([&bytes, &[]], 16 << 20), Ok(superblock()));
        assert_eq!(RedoSuperblock::decode([&[0; 9], &bytes], 16 << 20), Ok(superblock()));
        let tail = RedoTail { epoch: 2, position: 5, released: 3, instant: 8 };
        let older = RedoTail { epoch: 1, ..tail };
        let both = [&tail.encode(UUID)[..], &older.encode(UUID)];
        assert_eq!(RedoTail::decode(both, UUID), Some(tail));
        assert_eq!(RedoTail::decode([&[], both[1]], UUID), Some(older));
        assert_eq!(RedoChunk::decode(&chunk().encode(UUID), UUID), Some(chunk()));
        assert_eq!(RedoCommit::decode(&commit().encode(UUID), UUID), Some(commit()));
    }

    #[test]
    fn structures_of_other_journals_do_not_count() {
        let other = [8; 16];
        assert_eq!(RedoTail::decode([&RedoTail::default().encode(UUID), &[]], other), None);
        assert_eq!(RedoChunk::decode(&chunk().encode(UUID), other), None);
        assert_eq!(RedoCommit::decode(&commit().encode(UUID), other), None);
    }

    #[test]
    fn a_flipped_bit_or_a_missing_end_is_found() {
        let (chunk, tail) = (chunk().encode(UUID), RedoTail::default().encode(UUID));
        for byte in 0..BLOCK_BYTES {
            let flipped = |bytes: &[u8]| {
                let mut bad = bytes.to_vec();
                bad[byte] ^= 1 << (byte % 8);
                bad
            };
            assert_eq!(RedoChunk::decode(&flipped(&chunk), UUID), None, "byte {byte}");
            assert_eq!(RedoChunk::decode(&chunk[..byte], UUID), None, "byte {byte}");
            assert_eq!(RedoTail::decode([&flipped(&tail), &tail[..byte]], UUID), None, "byte {byte}");
            let bad = flipped(&commit().encode(UUID));
            assert_eq!(RedoCommit::decode(&bad, UUID), Some(commit()), "the second block is whole");
            assert_eq!(RedoCommit::decode(&bad[..BLOCK_BYTES], UUID), None, "byte {byte}");
        }
        for byte in (0..SUPERBLOCK_SIZE).step_by(97) {
            let mut bad = superblock().encode();
            bad[byte] ^= 1;
            assert!(RedoSuperblock::decode([&bad, &bad[..byte]], 16 << 20).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn unsorted_blocks_are_no_chunk() {
        let mut bad = chunk();
        bad.blocks.swap(0, 1);
        assert_eq!(RedoChunk::decode(&bad.encode(UUID), UUID), None);
    }

    #[test]
    fn a_smaller_device_is_refused() {
        assert_eq!(RedoGeometry::for_device((4 << 20) - 1), None);
        assert_eq!(RedoGeometry::for_device(4 << 20), Some(RedoGeometry { slot_count: 15 }));
        let bytes = superblock().encode();
        assert!(RedoSuperblock::decode([&bytes, &bytes], (16 << 20) - 1).is_err());
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = chunk().encode(UUID);
        assert_eq!(&header[..8], b"KICKRCHU");
        assert_eq!(&header[12..28], &UUID);
        assert_eq!(&header[28..36], &9_u64.to_le_bytes());
        assert_eq!(&header[36..44], &4_u64.to_le_bytes());
        assert_eq!(&header[44..52], &[1, 0, 0, 0, 63, 0, 0, 0]);
        assert_eq!(&header[52..62], &[10, 0, 0, 0, 0, 0, 10, 0, 0, 0]);
        let bytes = commit().encode(UUID);
        assert_eq!(&bytes[28..44], &[10, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[44..60], &[2, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(bytes[..BLOCK_BYTES], bytes[BLOCK_BYTES..]);
        let tail = RedoTail { epoch: 2, position: 5, released: 3, instant: 8 }.encode(UUID);
        assert_eq!((&tail[..8], tail[28], tail[36], tail[44], tail[52]), (&b"KICKRTAI"[..], 2, 5, 3, 8));
        let bytes = superblock().encode();
        assert_eq!(&bytes[..8], b"KICKREDO");
        assert_eq!((bytes[12], &bytes[16..32], &bytes[32..48]), (1, &UUID[..], &[1; 16][..]));
        assert_eq!((bytes[48], bytes[56], bytes[128], bytes[129]), (63, 1, 3, 1));
    }
}
