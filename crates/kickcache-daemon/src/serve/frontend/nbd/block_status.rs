//! The holes of a volume: ranges that neither the cache nor the origin's file has.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent, VolumeId};
use kickcache_nbd::StatusExtent;
use rustix::fs::{SeekFrom, seek};

use crate::driver::device::{BlockFile, Kind};
use crate::driver::executor::Driver;

/// The most bytes of holes for which a reply looks up blocks in the cache.
const HOLE_BYTES_MAX: u64 = 256 << 20;
/// The most extents of one reply.
pub(super) const EXTENT_COUNT_MAX: usize = 4096;

/// The status of an extent from its start on; it may end early.
pub(crate) fn block_status(
    engine: &impl CacheEngine,
    driver: &Driver,
    volume: VolumeId,
    extent: ByteExtent,
) -> Vec<StatusExtent> {
    match driver.file(Device::Origin(volume)).filter(|file| tells_of_holes(file)) {
        Some(file) => merged(file, extent, |block| engine.is_cached(volume, block)),
        None => vec![data(extent.length)],
    }
}

fn tells_of_holes(file: &BlockFile) -> bool {
    file.kind() == Kind::File && !file.is_remote()
}

fn merged(file: &BlockFile, extent: ByteExtent, is_cached: impl Fn(BlockIndex) -> bool) -> Vec<StatusExtent> {
    let mut extents: Vec<StatusExtent> = Vec::new();
    let (mut offset, mut looked_up) = (extent.start, 0);
    while offset < extent.end() && extents.len() < EXTENT_COUNT_MAX && looked_up < HOLE_BYTES_MAX {
        let Run { end, is_hole } = origin_run(file, offset, extent.end());
        if !is_hole {
            push(&mut extents, data(end - offset));
            offset = end;
            continue;
        }
        let end = end.min(offset + (HOLE_BYTES_MAX - looked_up));
        looked_up += end - offset;
        while offset < end && extents.len() < EXTENT_COUNT_MAX {
            let next = ((offset / BLOCK_SIZE + 1) * BLOCK_SIZE).min(end);
            let cached = is_cached(BlockIndex::containing(offset));
            let status = if cached { data(next - offset) } else { hole_of(next - offset) };
            push(&mut extents, status);
            offset = next;
        }
    }
    extents
}

struct Run {
    end: u64,
    is_hole: bool,
}

fn origin_run(file: &BlockFile, offset: u64, end: u64) -> Run {
    let position = seek(file.file(), SeekFrom::Data(offset));
    match position {
        Ok(position) if position > offset => Run { end: position.min(end), is_hole: true },
        Ok(_) => {
            let hole = seek(file.file(), SeekFrom::Hole(offset)).unwrap_or(end);
            Run { end: if hole > offset { hole.min(end) } else { end }, is_hole: false }
        }
        Err(rustix::io::Errno::NXIO) => Run { end, is_hole: true },
        // If the file system does not report holes, the rest counts as data.
        Err(_) => Run { end, is_hole: false },
    }
}

pub(super) fn push(extents: &mut Vec<StatusExtent>, next: StatusExtent) {
    match extents.last_mut() {
        Some(last) if (last.hole, last.zero) == (next.hole, next.zero) => last.length += next.length,
        _ => extents.push(next),
    }
}

pub(super) fn data(length: u64) -> StatusExtent {
    StatusExtent { length, hole: false, zero: false }
}

fn hole_of(length: u64) -> StatusExtent {
    StatusExtent { length, hole: true, zero: true }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::driver::device::{AccessMode, Emptiness};

    #[test]
    fn cached_blocks_are_data_even_over_a_hole() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("origin");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 65536], 65536).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let file = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
        let whole = ByteExtent { start: 0, length: 1 << 20 };
        let found = merged(&file, whole, |block| block == BlockIndex::new(2));
        let lengths: Vec<(u64, bool)> = found.iter().map(|extent| (extent.length, extent.hole)).collect();
        let rest = (1 << 20) - 131_072;
        assert_eq!(
            lengths,
            [(8192, true), (4096, false), (65536 - 12288, true), (65536, false), (rest, true)]
        );
    }
}
