//! The two copies of the superblock.

use std::io;

use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::{
    SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock,
};

use crate::devices::cache_device::io::{cache_io, read, write};
use crate::devices::cache_device::marks;
use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;

/// Writes both copies of a superblock with a new epoch: over the older copy first, so that a power cut leaves one good
/// copy.
pub(crate) fn store_superblock(file: &BlockFile, superblock: &mut Superblock) -> Result<(), ServeError> {
    marks::upgrade(file, superblock)?;
    let copies = read_copies(file)?;
    let epoch = |copy: &Vec<u8>| {
        // The size is not checked, since the device may have been extended after it was opened.
        let found = Superblock::decode_any([copy, copy], u64::MAX);
        found.ok().map(|found| found.epoch)
    };
    let found = [epoch(&copies[0]), epoch(&copies[1])];
    superblock.epoch = found.into_iter().flatten().max().unwrap_or_default() + 1;
    let bytes = superblock.encode();
    for copy in older_first(found) {
        write(file, SUPERBLOCK_OFFSETS[copy], &bytes)
            .and_then(|()| file.file().sync_data())
            .map_err(|source| cache_io(file.path(), "write the superblock", source))?;
    }
    if let [None, Some(_)] | [Some(_), None] = found {
        let (path, copy) = (file.path().display(), if found[0].is_none() { "first" } else { "second" });
        tracing::warn!(
            event = "superblock_repaired",
            "the {copy} copy of the superblock of {path} was damaged, or could not be read; it was restored from the other copy"
        );
    }
    Ok(())
}

/// The order in which copies with these epochs are overwritten; `None` is a damaged copy.
fn older_first(epochs: [Option<u64>; 2]) -> [usize; 2] {
    if epochs[0] <= epochs[1] { [0, 1] } else { [1, 0] }
}

/// The meaning of both copies.
pub(super) fn decode(copies: &[Vec<u8>; 2], file: &BlockFile) -> Result<Superblock, Error> {
    Superblock::decode([&copies[0], &copies[1]], file.size())
}

/// Whether a device carries a superblock of ours, of any version, by its magic number.
pub(crate) fn carries_superblock(file: &BlockFile) -> Result<bool, ServeError> {
    Ok(read_copies(file)?.iter().any(|copy| copy.starts_with(&SUPERBLOCK_MAGIC)))
}

/// The bytes of the two copies of the superblock.
pub(super) fn read_copies(file: &BlockFile) -> Result<[Vec<u8>; 2], ServeError> {
    let copies = copies_by(|offset| read(file, offset, SUPERBLOCK_SIZE));
    copies.map_err(|source| cache_io(file.path(), "read the superblock", source))
}

/// A copy that cannot be read counts as damaged; if both cannot be read, that is an error.
pub(crate) fn copies_by(read: impl FnMut(u64) -> io::Result<Vec<u8>>) -> io::Result<[Vec<u8>; 2]> {
    match SUPERBLOCK_OFFSETS.map(read) {
        [Err(source), Err(_)] => Err(source),
        copies => Ok(copies.map(Result::unwrap_or_default)),
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
    use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark};

    use super::*;
    use crate::driver::device::{AccessMode, Emptiness};

    /// If the power fails during the first write, the other copy has the last state.
    #[test]
    fn the_damaged_or_older_copy_is_written_first() {
        let cases = [
            ([Some(4), Some(5)], [0, 1]),
            ([Some(5), Some(4)], [1, 0]),
            ([None, Some(0)], [0, 1]),
            ([Some(0), None], [1, 0]),
            ([Some(4), Some(4)], [0, 1]),
            ([None, None], [0, 1]),
        ];
        for (epochs, order) in cases {
            assert_eq!(older_first(epochs), order, "{epochs:?}");
        }
    }

    #[test]
    fn both_copies_get_an_epoch_above_the_last_one() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("cache");
        std::fs::File::create(&path).unwrap().set_len(DEVICE_SIZE_MIN).unwrap();
        let file = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
        let mut superblock = Superblock::new([1; 16], DEVICE_SIZE_MIN).unwrap();
        store_superblock(&file, &mut superblock).unwrap();
        for damaged in [None, Some(0), Some(1)] {
            let before = superblock.epoch;
            if let Some(copy) = damaged {
                write(&file, SUPERBLOCK_OFFSETS[copy], &[0; 4096]).unwrap();
            }
            // The caller's epoch may be an old one.
            superblock.epoch = 0;
            store_superblock(&file, &mut superblock).unwrap();
            let copies = read_copies(&file).unwrap();
            let found = copies.map(|copy| Superblock::decode([&copy, &copy], file.size()).unwrap());
            assert_eq!(found.map(|found| found.epoch), [before + 1; 2], "{damaged:?}");
        }
    }

    /// The marks come first: a power cut between leaves a device of the old version.
    #[test]
    fn a_device_without_marks_gets_them_with_its_next_superblock() {
        for version in [1, 2] {
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let path = directory.path().join("cache");
            std::fs::File::create(&path).unwrap().set_len(DEVICE_SIZE_MIN).unwrap();
            let file = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
            let mut superblock = Superblock::new([1; 16], DEVICE_SIZE_MIN).unwrap();
            superblock.version = version;
            store_superblock(&file, &mut superblock).unwrap();
            let stored = decode(&read_copies(&file).unwrap(), &file).unwrap();
            assert!(stored.version >= 2);
            let marks = MARK_OFFSETS.map(|offset| read(&file, offset, MARK_BYTES).unwrap());
            let expected = if version == 1 {
                ServiceMark::InService.encode([1; 16]).to_vec()
            } else {
                vec![0; MARK_BYTES]
            };
            assert!(marks.iter().all(|mark| *mark == expected), "{version}");
        }
    }
}
