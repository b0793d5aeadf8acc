//! Finds the committed groups of a redo journal, without an engine.

use alloc::format;
use alloc::vec::Vec;

use crate::error::Error;
use crate::format::bytes::crc32c;
use crate::format::redo::{
    CHUNK_BLOCKS_MAX, RedoBlock, RedoChunk, RedoCommit, RedoGeometry, RedoTail, digest,
};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE};

/// A committed group of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundGroup {
    /// Number of the group.
    pub number: u64,
    /// The instant of its cut, in nanoseconds since 1970.
    pub instant: u64,
    /// Position of its first chunk.
    pub start: u64,
    /// The blocks of its chunks, a slot each, ascending.
    pub chunks: Vec<Vec<RedoBlock>>,
}

impl FoundGroup {
    /// Byte offset on the journal of a block of a chunk.
    pub fn byte_offset(&self, geometry: RedoGeometry, chunk: usize, block: usize) -> u64 {
        geometry.byte_offset(self.start + chunk as u64) + (block as u64 + 1) * BLOCK_SIZE
    }
}

/// Reads bytes of the journal: the offset, and the number of bytes.
pub type ReadJournal<'a, E> = dyn FnMut(u64, usize) -> Result<Vec<u8>, E> + 'a;

/// The committed groups from the tail on, oldest first. Data is read and checked.
///
/// # Errors
/// Those of `read`; and [`Error::Redo`] if a committed group is damaged, or the tail is older than the ring.
pub fn committed_groups<E: From<Error>>(
    uuid: [u8; 16],
    geometry: RedoGeometry,
    tail: RedoTail,
    read: &mut ReadJournal<'_, E>,
) -> Result<Vec<FoundGroup>, E> {
    let mut groups = Vec::new();
    let (mut position, mut last) = (tail.position, tail.released);
    while let Some(found) = next_group(uuid, geometry, position, read)? {
        if found.number <= last || position + found.slots() > tail.position + geometry.slot_count {
            break;
        }
        (position, last) = (position + found.slots(), found.number);
        groups.push(found);
    }
    Ok(groups)
}

impl FoundGroup {
    fn slots(&self) -> u64 {
        self.chunks.len() as u64 + 1
    }
}

fn next_group<E: From<Error>>(
    uuid: [u8; 16],
    geometry: RedoGeometry,
    start: u64,
    read: &mut ReadJournal<'_, E>,
) -> Result<Option<FoundGroup>, E> {
    let (mut chunks, mut headers, mut number) = (Vec::new(), Vec::new(), None);
    for position in start..start + geometry.slot_count {
        let bytes = read(geometry.byte_offset(position), 2 * BLOCK_BYTES)?;
        let header = &bytes[..BLOCK_BYTES];
        if let Some(chunk) = RedoChunk::decode(header, uuid) {
            check_position(chunk.position, position)?;
            let is_next = chunk.position == position
                && chunk.number as usize == chunks.len()
                && number.is_none_or(|number| number == chunk.group);
            if !is_next {
                return Ok(None);
            }
            number = Some(chunk.group);
            headers.push(crc32c(header));
            chunks.push(chunk.blocks);
            continue;
        }
        let Some(commit) = RedoCommit::decode(&bytes, uuid) else { return Ok(None) };
        check_position(commit.position, position)?;
        let is_complete = commit.position == position
            && number == Some(commit.group)
            && commit.chunk_count as usize == chunks.len()
            && commit.digest == digest(&headers);
        if !is_complete {
            return Ok(None);
        }
        let found = FoundGroup { number: commit.group, instant: commit.instant, start, chunks };
        check_data(geometry, &found, read)?;
        return Ok(Some(found));
    }
    Ok(None)
}

/// A slot that is newer than the place where it was found: the tail that freed the place is lost.
fn check_position(found: u64, expected: u64) -> Result<(), Error> {
    if found <= expected {
        return Ok(());
    }
    let what = "its tail is older than its content; is it a mixture of two copies? Restore it whole";
    Err(Error::Redo { what: what.into() })
}

fn check_data<E: From<Error>>(
    geometry: RedoGeometry,
    group: &FoundGroup,
    read: &mut ReadJournal<'_, E>,
) -> Result<(), E> {
    for (number, blocks) in group.chunks.iter().enumerate() {
        debug_assert!(blocks.len() <= CHUNK_BLOCKS_MAX, "a decoded chunk fits its slot");
        let data = read(group.byte_offset(geometry, number, 0), blocks.len() * BLOCK_BYTES)?;
        let mut pairs = blocks.iter().zip(data.chunks_exact(BLOCK_BYTES));
        if let Some((block, _)) = pairs.find(|(block, data)| crc32c(data) != block.checksum) {
            let (volume, offset) = (block.key.volume().get(), block.key.block().byte_offset());
            let what = format!(
                "group {} was complete and is damaged now: the block at byte {offset} of volume number {volume}",
                group.number
            );
            return Err(Error::Redo { what }.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::redo::{SLOT_BYTES, SLOTS_MIN};
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    const UUID: [u8; 16] = [3; 16];
    const GEOMETRY: RedoGeometry = RedoGeometry { slot_count: SLOTS_MIN };

    /// The bytes of a journal.
    struct Journal(Vec<u8>);

    impl Journal {
        fn new() -> Journal {
            Journal(alloc::vec![0; usize::try_from((SLOTS_MIN + 1) * SLOT_BYTES).unwrap()])
        }

        fn put(&mut self, offset: u64, bytes: &[u8]) {
            let at = usize::try_from(offset).unwrap();
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        /// Writes a group of two chunks and its commit.
        fn write(&mut self, number: u64, start: u64) {
            let mut headers = Vec::new();
            for chunk in 0..2 {
                let position = start + u64::from(chunk);
                let data = [u8::try_from(number).unwrap(); BLOCK_BYTES];
                let block = RedoBlock {
                    key: BlockKey::new(VolumeId::new(0), BlockIndex::new(number + u64::from(chunk))),
                    checksum: crc32c(&data),
                };
                let header = RedoChunk { position, group: number, number: chunk, blocks: [block].into() };
                let header = header.encode(UUID);
                let offset = GEOMETRY.byte_offset(position);
                self.put(offset, &header);
                self.put(offset + BLOCK_SIZE, &data);
                headers.push(crc32c(&header));
            }
            let digest = digest(&headers);
            let position = start + 2;
            let commit = RedoCommit { position, group: number, chunk_count: 2, instant: number * 10, digest };
            self.put(GEOMETRY.byte_offset(position), &commit.encode(UUID));
        }

        fn groups(&self, tail: RedoTail) -> Result<Vec<u64>, Error> {
            let mut read = |offset: u64, length: usize| {
                let at = usize::try_from(offset).unwrap();
                Ok::<_, Error>(self.0[at..at + length].to_vec())
            };
            let found = committed_groups(UUID, GEOMETRY, tail, &mut read)?;
            assert!(found.iter().all(|group| group.instant == group.number * 10));
            Ok(found.iter().map(|group| group.number).collect())
        }
    }

    fn tail(position: u64, released: u64) -> RedoTail {
        RedoTail { epoch: 1, position, released, instant: 0 }
    }

    #[test]
    fn committed_groups_follow_the_tail() {
        let mut journal = Journal::new();
        assert_eq!(journal.groups(tail(0, 0)), Ok(Vec::new()));
        for number in 1..=4 {
            journal.write(number, (number - 1) * 3);
        }
        assert_eq!(journal.groups(tail(0, 0)), Ok([1, 2, 3, 4].into()));
        assert_eq!(journal.groups(tail(6, 2)), Ok([3, 4].into()));
        assert_eq!(journal.groups(tail(12, 4)), Ok(Vec::new()));
        // The ring begins again: the last commit is in the first slot.
        journal.write(5, 12);
        journal.write(6, 15);
        assert_eq!(journal.groups(tail(9, 3)), Ok([4, 5, 6].into()));
    }

    #[test]
    fn a_group_without_its_commit_does_not_count() {
        for lost in 0..3 {
            let mut journal = Journal::new();
            journal.write(1, 0);
            journal.write(2, 3);
            journal.write(3, 6);
            journal.put(GEOMETRY.byte_offset(3 + lost), &[0; 2 * BLOCK_BYTES]);
            assert_eq!(journal.groups(tail(0, 0)), Ok([1].into()), "slot {lost}");
        }
    }

    #[test]
    fn chunks_of_another_attempt_do_not_count() {
        let mut journal = Journal::new();
        journal.write(7, 0);
        let mut other = Journal::new();
        other.write(8, 0);
        let second = usize::try_from(GEOMETRY.byte_offset(1)).unwrap();
        let bytes = other.0[second..second + BLOCK_BYTES].to_vec();
        journal.put(GEOMETRY.byte_offset(1), &bytes);
        assert_eq!(journal.groups(tail(0, 0)), Ok(Vec::new()));
    }

    #[test]
    fn rotten_data_of_a_committed_group_is_refused() {
        let mut journal = Journal::new();
        journal.write(1, 0);
        journal.put(GEOMETRY.byte_offset(1) + BLOCK_SIZE, &[9]);
        let error = journal.groups(tail(0, 0)).unwrap_err();
        assert!(error.to_string().contains("byte 8192 of volume number 0"), "{error}");
    }

    #[test]
    fn a_tail_that_is_older_than_the_ring_is_refused() {
        let mut journal = Journal::new();
        (1..=6).for_each(|number| journal.write(number, (number - 1) * 3));
        assert!(journal.groups(tail(0, 0)).unwrap_err().to_string().contains("older than its content"));
    }

    use alloc::string::ToString;
}
