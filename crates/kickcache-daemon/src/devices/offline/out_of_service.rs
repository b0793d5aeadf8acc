//! Whether a cache device is out of service, and which of its blocks are nowhere else.

use std::io;
use std::path::Path;

use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{ByteExtent, VolumeId};

use crate::devices::cache_device::CacheDevice;
use crate::devices::cache_device::marks::{of_known, of_reads, together, write_marks};
use crate::devices::device_opening::noted;
use crate::devices::offline::error::OfflineError;
use crate::devices::offline::metadata::{Metadata, superblock};
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::origin_records::keep_out_of_service;
use crate::devices::state::{CacheRecord, OriginRecord, StateError, uuid_text};
use crate::driver::rights::access;
use crate::extents::{Extent, extents};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;

#[derive(Debug)]
pub struct OutOfServiceDevice {
    /// The uuid, path and last start of the device.
    pub cache: CacheRecord,
    /// The volumes that may have dirty blocks on this device alone.
    pub incomplete: Vec<Incomplete>,
    /// The error of an unreadable record, if there is one.
    pub doubt: Option<StateError>,
}

impl OutOfServiceDevice {
    #[must_use]
    pub fn is_needed_by(&self, volume: &str) -> bool {
        self.incomplete.iter().any(|known| known.name == volume)
    }
}

/// A volume that may have dirty blocks which are on a device out of service alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incomplete {
    pub name: String,
    /// The extents of the dirty blocks, never empty; `None` if they are unknown.
    pub extents: Option<Vec<ByteExtent>>,
}

/// Checks whether a cache device is out of service, by its marks or its record, or, if it is unreadable, by
/// the records of these origins. `None` if it is in service, is in use, or is no cache device.
///
/// # Errors
/// If the record of the device is of a later version, or, for an unreadable device, cannot be read.
pub fn out_of_service(
    path: &Path,
    state: &StatePlace,
    origins: &[String],
) -> Result<Option<OutOfServiceDevice>, OfflineError> {
    let looked = OfflineDevice::open(path).and_then(|source| Ok((superblock(&source)?, source)));
    match looked {
        Ok((superblock, source)) => Ok(of_readable(source, &superblock, state)?),
        Err(OfflineError::Io { .. } | OfflineError::Content { .. }) => Ok(of_origins(state, origins)?),
        Err(_) => Ok(None),
    }
}

fn of_readable(
    source: OfflineDevice,
    superblock: &Superblock,
    state: &StatePlace,
) -> Result<Option<OutOfServiceDevice>, StateError> {
    let path = access::canonical(source.path()).unwrap_or_else(|_| source.path().into());
    let noted = noted(state, superblock)?;
    let incomplete = match mark(&source, superblock) {
        Ok(mark) => together(mark, noted.incomplete),
        Err(_) => noted.incomplete,
    };
    let Some(incomplete) = incomplete else { return Ok(None) };
    let incomplete = of_known(superblock, incomplete);
    let name = |id: VolumeId| {
        superblock.volumes.iter().find(|record| record.id == id).map(|record| record.name.clone())
    };
    let metadata = if incomplete.is_empty() { None } else { Some(Metadata::read(source)) };
    let incomplete = incomplete.iter().filter_map(|id| {
        let found = match &metadata {
            Some(Ok(metadata)) => Some(extents(&metadata.engine().dirty_blocks(id))),
            Some(Err(_)) | None => None,
        };
        let is_complete = found.as_ref().is_some_and(Vec::is_empty);
        Some(Incomplete { name: name(id)?, extents: found }).filter(|_| !is_complete)
    });
    let cache = CacheRecord::new(superblock, path);
    Ok(Some(OutOfServiceDevice { cache, incomplete: incomplete.collect(), doubt: noted.doubt }))
}

fn mark(source: &OfflineDevice, superblock: &Superblock) -> io::Result<ServiceMark> {
    let length = u64::try_from(MARK_BYTES).expect("a block");
    of_reads(MARK_OFFSETS.map(|start| source.read(ByteExtent { start, length })), superblock)
}

fn of_origins(state: &StatePlace, origins: &[String]) -> Result<Option<OutOfServiceDevice>, StateError> {
    let Some(store) = state.store() else { return Ok(None) };
    for identity in origins {
        // An unreadable record concerns its origin alone.
        let Some(origin) = store.origin(identity).ok().flatten() else { continue };
        let Some(cache) = store.cache(&origin.cache_uuid)? else { continue };
        if let Some(out) = &cache.out_of_service {
            let unknown = |name: &String| Incomplete { name: name.clone(), extents: None };
            let incomplete = out.incomplete.iter().map(unknown).collect();
            return Ok(Some(OutOfServiceDevice { cache, incomplete, doubt: None }));
        }
    }
    Ok(None)
}

/// Puts on record, durably, that a device is out of service and which volumes no longer need it.
///
/// # Errors
/// If marks and record cannot be written.
pub fn complete(
    path: &Path,
    state: &StatePlace,
    standing: &OutOfServiceDevice,
    names: &[String],
) -> Result<(), OfflineError> {
    let left = standing.incomplete.iter().map(|volume| &volume.name).filter(|name| !names.contains(name));
    let left: Vec<String> = left.cloned().collect();
    let marked = keep_mark(path, &left);
    let Some(store) = state.store() else { return marked.map_err(OfflineError::from) };
    let kept = keep_out_of_service(&store, &standing.cache, left);
    match (marked, kept) {
        (Ok(()), kept) => {
            kept.unwrap_or_else(|error| tracing::warn!(event = "record_failed", "{error}"));
            Ok(())
        }
        (Err(_), kept) => Ok(kept?),
    }
}

fn keep_mark(path: &Path, incomplete: &[String]) -> Result<(), ServeError> {
    let device = CacheDevice::existing(path)?;
    let records = device.superblock.volumes.iter();
    let incomplete =
        records.filter(|record| incomplete.contains(&record.name)).map(|record| record.id).collect();
    write_marks(&device.file, ServiceMark::OutOfService { incomplete }, device.superblock.uuid)
}

/// Records that the origins of volumes lack no blocks of a device out of service.
///
/// # Errors
/// If records cannot be read or written.
pub fn forget_dirty(
    state: &StatePlace,
    standing: &OutOfServiceDevice,
    names: &[String],
) -> Result<(), OfflineError> {
    let Some(store) = state.store() else { return Ok(()) };
    for record in store.origins()?.records {
        let is_meant = record.cache_uuid == standing.cache.uuid && names.contains(&record.volume);
        if is_meant && record.may_be_dirty {
            store.keep_origin(&OriginRecord { may_be_dirty: false, ..record })?;
        }
    }
    Ok(())
}

/// The blocks of a volume that were still the newest on a device out of service when its daemon stopped;
/// `None` if they are unknown.
pub(crate) fn newest(
    state: &StatePlace,
    superblock: &Superblock,
    volume: &str,
) -> Result<Option<Vec<Extent>>, StateError> {
    let Some(store) = state.store() else { return Ok(None) };
    let record = match store.cache(&uuid_text(superblock.uuid)) {
        Err(error @ StateError::Newer { .. }) => return Err(error),
        record => record.ok().flatten(),
    };
    let known = record.and_then(|record| record.out_of_service).map_or_else(Vec::new, |out| out.newest);
    Ok(known.into_iter().find(|blocks| blocks.volume == volume).map(|blocks| blocks.extents))
}
