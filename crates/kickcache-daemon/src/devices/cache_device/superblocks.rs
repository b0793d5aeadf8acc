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
    let epochs = found.map(Option::unwrap_or_default);
    let order = if epochs[0] <= epochs[1] { [0, 1] } else { [1, 0] };
    superblock.epoch = epochs[0].max(epochs[1]) + 1;
    let bytes = superblock.encode();
    for copy in order {
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
