//! A cache device that is to use more bytes.

use std::path::Path;

use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::growth::{FoundSegment, generation_found};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Generation, SegmentIndex};

use crate::devices::cache_device::examination::{allocate_to, check_room};
use crate::devices::cache_device::io::{cache_io, read};
use crate::driver::device::{BlockFile, Kind};
use crate::serve::error::ServeError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extended {
    pub(crate) size: u64,
    /// See [`Superblock::grow`].
    pub(crate) found: Option<Generation>,
}

impl Extended {
    /// The superblock of the device at this path after the growth.
    ///
    /// # Errors
    /// If the device cannot grow to this size.
    pub(crate) fn grown(&self, superblock: &Superblock, path: &Path) -> Result<Box<Superblock>, ServeError> {
        let mut grown = Box::new(superblock.clone());
        let refused = |source| ServeError::Engine { path: path.into(), source };
        grown.grow(self.size, self.found).map_err(refused)?;
        Ok(grown)
    }
}

/// Prepares a device for a size, by default for the whole device; `None` if the cache device has this size
/// already.
pub(crate) fn extend(
    file: &BlockFile,
    superblock: &Superblock,
    wanted: Option<u64>,
) -> Result<Option<Extended>, ServeError> {
    let Some(planned) = plan(file, superblock, wanted)? else { return Ok(None) };
    if file.kind() == Kind::File {
        allocate_to(file, planned.has, planned.size).map_err(|error| match error {
            ServeError::CacheIo { source, .. } => {
                let size = planned.size;
                refuse(
                    file,
                    format!("it cannot be extended to {size} bytes: {source}; the size is unchanged"),
                )
            }
            other => other,
        })?;
    }
    planned.look(file, superblock).map(Some)
}

/// Checks for obstacles to an extension, without a change. Returns the new size; `None` if the device has it
/// already.
pub(crate) fn check_extension(
    file: &BlockFile,
    superblock: &Superblock,
    wanted: Option<u64>,
) -> Result<Option<u64>, ServeError> {
    let Some(planned) = plan(file, superblock, wanted)? else { return Ok(None) };
    if file.kind() == Kind::File {
        check_room(file.file(), file.path(), planned.size)?;
    }
    if planned.size <= planned.has {
        planned.look(file, superblock)?.grown(superblock, file.path())?;
    }
    Ok(Some(planned.size))
}

struct Planned {
    has: u64,
    size: u64,
    geometry: Geometry,
}

impl Planned {
    fn look(&self, file: &BlockFile, superblock: &Superblock) -> Result<Extended, ServeError> {
        let found = find_generation(file, superblock, &self.geometry)
            .map_err(|source| cache_io(file.path(), "read the new area of", source))?;
        Ok(Extended { size: self.size, found })
    }
}

fn plan(
    file: &BlockFile,
    superblock: &Superblock,
    wanted: Option<u64>,
) -> Result<Option<Planned>, ServeError> {
    let failed = |source| cache_io(file.path(), "find the size of", source);
    let has = file.size_today().map_err(failed)?;
    let size = wanted.unwrap_or(has);
    let served = superblock.geometry.device_size;
    if has < served {
        let what = format!(
            "it has {has} bytes, but {served} are in use: it was cut short, and the data behind its end is lost; replace it"
        );
        return Err(refuse(file, what));
    }
    if size == served {
        return Ok(None);
    }
    if wanted.is_some_and(|size| !size.is_multiple_of(BLOCK_SIZE)) {
        return Err(refuse(file, format!("it cannot have {size} bytes; give a multiple of {BLOCK_SIZE}")));
    }
    let geometry = Extended { size, found: None }.grown(superblock, file.path())?.geometry;
    if size > has && file.kind() == Kind::Block {
        let what =
            format!("it has {has} bytes, but --size gives {size}; extend the device first, or omit --size");
        return Err(refuse(file, what));
    }
    Ok(Some(Planned { has, size, geometry }))
}

fn refuse(file: &BlockFile, what: String) -> ServeError {
    ServeError::Engine { path: file.path().into(), source: Error::Growth { what } }
}

/// The highest generation of remains of the device itself in the new area.
fn find_generation(
    file: &BlockFile,
    superblock: &Superblock,
    geometry: &Geometry,
) -> std::io::Result<Option<Generation>> {
    let mut highest = None;
    for segment in (superblock.geometry.segment_count..geometry.segment_count).map(SegmentIndex::new) {
        let first = geometry.first_location(segment);
        let summary_at = geometry.byte_offset(first.plus(geometry.batch_blocks()));
        let first = read(file, geometry.byte_offset(first), BLOCK_BYTES)?;
        let length = BLOCK_BYTES * usize::try_from(geometry.summary_blocks()).expect("five at most");
        let summary = read(file, summary_at, length)?;
        let found = FoundSegment { first: &first, summary: &summary };
        highest = highest.max(generation_found(geometry, superblock.uuid, &found));
    }
    Ok(highest)
}
