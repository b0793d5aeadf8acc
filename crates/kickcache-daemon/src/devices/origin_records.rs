//! The records in the state directory while volumes are served.
//!
//! Over 500 lines because all records of a server share their locks.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use kickcache_engine::config::Mode;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{VolumeId, VolumeSet};

use crate::devices::missed_device::{self, lose_dirty, new_cache};
use crate::devices::state::{
    CacheRecord, CompleteCache, Completeness, FileIdentity, FileStamp, NewestBlocks, OriginRecord,
    OutOfService, StateError, StateStore, uuid_text,
};
use crate::devices::unserved_records::{KnownNames, leave_out_known};
use crate::driver::device::AccessMode;
use crate::driver::record_thread::RecordSink;
use crate::plan::cache_spec::Replacement;
use crate::serve::config::StatePlace;
use crate::serve::error::{RefusedVolume, ServeError};
use crate::whole_path::whole_path;

/// The number of a cache device's first start, since a format writes the number 1.
pub(crate) const FIRST_START: u64 = 2;

/// The records of a server, shared by the loop and the holders of the server's handle.
pub(crate) struct OriginRecords {
    store: Option<Result<StateStore, StateError>>,
    /// [`OriginRecords::take_over`], [`OriginRecords::keeper`] and [`OriginRecords::note_newest`] hold the
    /// lock while they write the record, so that each keeps the changes of the others. If both locks are
    /// held, `volumes` is locked first.
    cache: Arc<Mutex<CacheRecord>>,
    /// The previous record of the cache device; `None` without a readable one.
    cache_before: Option<CacheRecord>,
    volumes: Mutex<Vec<VolumeEntry>>,
    /// Whether the state directory has the record of the previous start.
    is_last: bool,
    /// All volumes of the cache device, for the record that it is out of service.
    names: Names,
}

type Names = Arc<KnownNames>;

struct VolumeEntry {
    id: VolumeId,
    name: String,
    identity: String,
    completeness: Completeness,
    /// If set, the written record has `MayBeDirty`.
    is_noted_dirty: bool,
    file: Option<FileIdentity>,
    /// See [`OriginRecord::stopped`].
    stopped: Option<FileStamp>,
    before: Option<OriginRecord>,
}

pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    pub(crate) identity: &'a str,
    pub(crate) mode: Mode,
    pub(crate) access: AccessMode,
    pub(crate) holdings: Holdings,
}

/// The blocks that a cache device may hold of a volume before it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holdings {
    Nothing,
    Earlier,
}

impl Candidate<'_> {
    /// Whether writes may be acknowledged before the origin has them.
    fn writes_back(&self) -> bool {
        self.mode == Mode::WriteBack && self.access == AccessMode::ReadWrite
    }
}

#[derive(Clone, Copy)]
pub struct CacheChoice<'a> {
    pub path: &'a Path,
    /// The uuid of the device, if it is known.
    pub uuid: Option<[u8; 16]>,
    /// Whether the device may replace another device that may hold dirty blocks.
    pub replacement: Replacement,
}

fn open(place: &StatePlace) -> Option<Result<StateStore, StateError>> {
    match place {
        StatePlace::Missing => Some(Err(StateError::NoDirectory)),
        StatePlace::NotKept | StatePlace::Directory(_) => place.store().map(Ok),
    }
}

/// Whether the state directory has a readable record of an origin.
pub(crate) fn knows(place: &StatePlace, identity: &str) -> bool {
    place.store().is_some_and(|store| store.origin(identity).is_ok_and(|record| record.is_some()))
}

/// Refuses a cache device in place of another device that may hold blocks which an origin lacks, unless the user
/// accepts that; and a start that cannot be recorded.
pub(crate) fn check(
    place: &StatePlace,
    chosen: CacheChoice<'_>,
    volumes: &[Candidate<'_>],
) -> Result<(), ServeError> {
    let store = match open(place) {
        None => return Ok(()),
        Some(Err(error)) => return Err(unnoted(place, chosen.path, &error)),
        Some(Ok(store)) => store,
    };
    let origins = store.origins().map_err(|error| unnoted(place, chosen.path, &error))?;
    for volume in volumes {
        let readable = check_readable(&store, chosen, volume.identity);
        readable.map_err(|what| ServeError::Volume { name: volume.name.into(), what })?;
    }
    for error in &origins.unreadable {
        tracing::warn!(
            event = "record_unreadable",
            "the record of an origin cannot be read, and that origin is refused: {error}"
        );
    }
    if chosen.replacement == Replacement::Accept {
        return Ok(());
    }
    let origins = origins.records;
    let uuid = chosen.uuid.map(uuid_text);
    let path = whole_path(chosen.path);
    // Records under identities of older versions count, too.
    let served = volumes.iter().filter_map(|volume| store.origin(volume.identity).ok().flatten());
    let served: Vec<OriginRecord> = served.collect();
    let origins = origins.into_iter().filter(|record| !served.iter().any(|other| other.is_of_same(record)));
    let origins: Vec<OriginRecord> = served.iter().cloned().chain(origins).collect();
    let is_missed = |record: &&OriginRecord| {
        let is_served = volumes.iter().any(|volume| volume.identity == record.identity);
        let is_other = Some(&record.cache_uuid) != uuid.as_ref();
        record.may_be_dirty && is_other && (is_served || uuid.is_none() && record.cache_path == path)
    };
    let is = if uuid.is_some() { "another one" } else { "new" };
    let found = format!("{} is {is}", chosen.path.display());
    let refuse = |missed: &OriginRecord| {
        let (name, go_on) = (missed.volume.clone(), new_cache(chosen.path));
        let sentence = missed_device::sentence(missed, &found, &go_on, place);
        let what = format!("{sentence}; --without-cache with {} serves the origin alone", lose_dirty(&name));
        RefusedVolume { name, what }
    };
    ServeError::refusing(origins.iter().filter(is_missed).map(refuse).collect())
}

/// Refuses an origin if its record alone is unreadable, unless the user accepts that and no later version wrote it.
///
/// # Errors
/// A sentence with the reason.
pub fn check_readable(store: &StateStore, chosen: CacheChoice<'_>, identity: &str) -> Result<(), String> {
    match (store.origin(identity), chosen.replacement) {
        (Ok(_), _) => Ok(()),
        (Err(error @ StateError::Newer { .. }), _) => Err(error.to_string()),
        (Err(_), Replacement::Accept) => Ok(()),
        (Err(_), Replacement::Refuse) if store.origins().is_err() => Ok(()),
        (Err(error), Replacement::Refuse) => Err(format!(
            "it is unknown with which cache device its origin was last served, and whether that holds \
             blocks that the origin lacks: {error}, or use {} to serve it without the blocks on another \
             device",
            new_cache(chosen.path)
        )),
    }
}

/// Refuses a start that cannot be recorded: after such a start, an older copy of the cache device, with stale data,
/// would pass for this device.
fn unnoted(place: &StatePlace, cache: &Path, error: &StateError) -> ServeError {
    let way_on = match place {
        StatePlace::Directory(directory) => format!(
            "make room in {directory} and make it writable, or give another directory with --state, with \
             a copy of the files in this one",
            directory = directory.display()
        ),
        StatePlace::Missing | StatePlace::NotKept => "give a directory with --state".into(),
    };
    let what = format!(
        "{error}; no volume is served without a record, because an older copy of the cache device could \
         not be detected afterwards: {way_on}"
    );
    ServeError::Unnoted { path: cache.into(), what }
}

fn not_added(name: &str, error: &StateError) -> ServeError {
    let what = format!(
        "{error}; no volume is added without a record: make room in the state directory and make it writable, \
         then add the volume again"
    );
    ServeError::Volume { name: name.into(), what }
}

fn untrusted(name: &str, error: &StateError) -> ServeError {
    let what = format!(
        "{error}; write-back needs a directory to record that the cache device holds blocks that the \
         origin lacks: give one with --state, or serve in another mode"
    );
    ServeError::Volume { name: name.into(), what }
}

impl OriginRecords {
    /// Notes which cache device each origin has, durably, before anything is served; without a usable state
    /// directory, only in memory.
    pub(crate) fn begin(
        place: &StatePlace,
        (superblock, path): (&Superblock, &Path),
        volumes: &[(VolumeId, Candidate<'_>)],
    ) -> Result<OriginRecords, ServeError> {
        let store = open(place);
        let known = store.as_ref().and_then(|store| store.as_ref().ok());
        let cache = CacheRecord::new(superblock, path.into());
        let cache_before = known.and_then(|store| record_before(store, &cache));
        let is_last = cache_before.as_ref().is_some_and(|before| before.starts + 1 == cache.starts);
        let names = superblock.volumes.iter().map(|record| (record.id, record.name.clone())).collect();
        let names = Arc::new(Mutex::new(names));
        let cache = Arc::new(Mutex::new(cache));
        let notes = OriginRecords { store, cache, cache_before, volumes: Mutex::default(), is_last, names };
        let noted = volumes.iter().map(|(id, volume)| notes.noted(*id, volume)).collect();
        *notes.lock() = noted;
        notes.keep_all().map_err(|error| unnoted(place, path, &error))?;
        Ok(notes)
    }

    fn noted(&self, id: VolumeId, volume: &Candidate<'_>) -> VolumeEntry {
        let known = self.store.as_ref().and_then(|store| store.as_ref().ok());
        let before = known.and_then(|store| store.origin(volume.identity).ok()?);
        let (cache, is_last) = (self.cache(), &self.is_last);
        // After a failed start, the record of the start before it counts: `complete` then has the number of
        // the failed start.
        let just_before =
            CompleteCache { cache_uuid: cache.uuid.clone(), starts: cache.starts.saturating_sub(1) };
        let is_own = |record: &&OriginRecord| {
            record.cache_uuid == cache.uuid && (*is_last || record.complete.contains(&just_before))
        };
        let own = before.as_ref().filter(is_own);
        let was_dirty = match (own, volume.holdings) {
            (Some(record), _) => record.may_be_dirty,
            (None, Holdings::Earlier) => true,
            (None, Holdings::Nothing) => false,
        };
        let may_be_dirty = was_dirty || volume.writes_back();
        let completeness = if may_be_dirty { Completeness::MayBeDirty } else { Completeness::Complete };
        VolumeEntry {
            id,
            name: volume.name.into(),
            identity: volume.identity.into(),
            completeness,
            is_noted_dirty: may_be_dirty,
            file: FileIdentity::of_origin(volume.identity),
            stopped: None,
            before,
        }
    }

    /// Records a volume that is added to a running server, durably, before it is served.
    pub(crate) fn join(&self, id: VolumeId, volume: &Candidate<'_>) -> Result<(), ServeError> {
        let noted = self.noted(id, volume);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(known, _)| *known != id);
        names.push((id, noted.name.clone()));
        drop(names);
        if let Some(Ok(store)) = &self.store {
            self.keep_first(store, &noted).map_err(|error| not_added(volume.name, &error))?;
        }
        self.lock().push(noted);
        Ok(())
    }

    /// Restores the previous record of a volume that was not added after all.
    pub(crate) fn undo_join(&self, id: VolumeId) {
        let noted = self.take(id);
        let (Some(noted), Some(Ok(store))) = (noted, &self.store) else { return };
        let restored = match &noted.before {
            Some(before) => store.keep_origin(before),
            None => store.forget_origin(&noted.identity),
        };
        if let Err(error) = restored {
            tracing::warn!(event = "record_failed", "{error}");
        }
    }

    /// Records that a volume was removed from the cache device and that its origin is complete. The record
    /// still has this device as the last one, because the volume's blocks on other devices are stale.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(crate) fn part(&self, id: VolumeId) -> Result<(), StateError> {
        let noted = self.take(id);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| *known != id);
        let (Some(noted), Some(Ok(store))) = (noted, &self.store) else { return Ok(()) };
        self.keep(store, &VolumeEntry { completeness: Completeness::Complete, ..noted })
    }

    /// Records the takeover by another device with this superblock: its number, and its path. This is done
    /// before any acknowledged write is on the new device alone, and after the old one is marked as replaced.
    ///
    /// # Errors
    /// If a record cannot be read or written; records may be changed in part.
    pub(crate) fn take_over(&self, superblock: &Superblock, path: &Path) -> Result<(), StateError> {
        let mut volumes = self.lock();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = CacheRecord::new(superblock, path.into());
        let Some(Ok(store)) = &self.store else { return Ok(()) };
        let out_of_service = store.cache(&cache.uuid)?.and_then(|record| record.out_of_service);
        store.keep_cache(&CacheRecord { out_of_service, ..cache.clone() })?;
        let uuid = cache.uuid.clone();
        drop(cache);
        for volume in volumes.iter_mut() {
            let is_dirty = volume.completeness == Completeness::MayBeDirty;
            volume.is_noted_dirty &= is_dirty;
            self.keep(store, volume)?;
            volume.is_noted_dirty = is_dirty;
        }
        for record in store.origins()?.records {
            if record.cache_uuid == uuid && record.cache_path != path {
                store.keep_origin(&OriginRecord { cache_path: path.into(), ..record })?;
            }
        }
        Ok(())
    }

    /// Records that the cache device is out of use, and that its blocks are stale. Later changes of these
    /// volumes are not recorded.
    ///
    /// # Errors
    /// If a record cannot be read or written.
    pub(crate) fn leave_out(&self) -> Result<(), StateError> {
        let Some(Ok(store)) = &self.store else { return Ok(()) };
        let mut volumes = self.lock();
        let cache = self.cache();
        let mut kept = keep_out_of_service(store, &cache, Vec::new());
        kept = kept.and_then(|()| leave_out_known(store, &cache, &self.names));
        for volume in volumes.drain(..) {
            let record = OriginRecord::new(&volume.identity, &volume.name, &cache, Completeness::MayBeDirty);
            let record =
                OriginRecord { file: volume.file, may_be_dirty: false, written_without: true, ..record };
            let record = match &volume.before {
                Some(before) => record.after(before),
                None => record,
            };
            let noted = store.keep_origin(&record);
            kept = kept.and(noted);
        }
        kept
    }

    fn take(&self, id: VolumeId) -> Option<VolumeEntry> {
        let mut volumes = self.lock();
        let index = volumes.iter().position(|volume| volume.id == id)?;
        Some(volumes.remove(index))
    }

    /// Writes the number of the start, and then the records of the volumes. If the record of a volume cannot be
    /// written, the previous records are restored.
    fn keep_all(&self) -> Result<(), StateError> {
        let Some(Ok(store)) = &self.store else { return Ok(()) };
        store.keep_cache(&self.cache())?;
        let kept = self.lock().iter().try_for_each(|volume| self.keep_first(store, volume));
        kept.inspect_err(|_| self.undo())
    }

    /// Restores the previous records if the device is not used after all.
    pub(crate) fn undo(&self) {
        let Some(Ok(store)) = &self.store else { return };
        let cache = self.cache();
        let restore = |volume: &VolumeEntry| match &volume.before {
            Some(before) => {
                // If blocks were written back meanwhile, the recorded times do not hold any more.
                let now = FileStamp::of_origin(&volume.identity);
                let stopped = volume.stopped.or_else(|| before.stopped.filter(|stamp| Some(*stamp) == now));
                let before = OriginRecord { stopped, ..before.clone() };
                if before.identity != volume.identity {
                    store.forget_origin(&volume.identity)?;
                }
                store.keep_origin(&before.after_failed_start(&cache))
            }
            None => store.forget_origin(&volume.identity),
        };
        let restored = self.lock().iter().try_for_each(restore);
        let restored = restored.and_then(|()| match &self.cache_before {
            Some(before) => store.keep_cache(before),
            None => store.remove_cache(&cache.uuid),
        });
        if let Err(error) = restored {
            tracing::warn!(event = "record_failed", "{error}");
        }
    }

    /// Records durably that a volume may be dirty, before it is served in write-back.
    pub(crate) fn expect_dirty(&self, name: &str) -> Result<(), ServeError> {
        let mut volumes = self.lock();
        let Some(volume) = volumes.iter_mut().find(|volume| volume.name == name) else { return Ok(()) };
        let Some(store) = &self.store else { return Ok(()) };
        let before = std::mem::replace(&mut volume.completeness, Completeness::MayBeDirty);
        let kept = match store {
            Ok(_) if volume.is_noted_dirty => Ok(()),
            Ok(store) => self.keep(store, volume).map_err(|error| untrusted(name, &error)),
            Err(error) => Err(untrusted(name, error)),
        };
        if kept.is_err() {
            volume.completeness = before;
        }
        volume.is_noted_dirty |= kept.is_ok();
        kept
    }

    /// Records whether the origin of a volume is complete. A failure is only logged.
    pub(crate) fn note_completeness(&self, id: VolumeId, completeness: Completeness) {
        let Some(Ok(store)) = &self.store else { return };
        let mut volumes = self.lock();
        let Some(volume) = volumes.iter_mut().find(|volume| volume.id == id) else { return };
        if volume.completeness == completeness {
            return;
        }
        volume.completeness = completeness;
        match self.keep(store, volume) {
            Ok(()) => volume.is_noted_dirty = completeness == Completeness::MayBeDirty,
            Err(error) => tracing::warn!(
                event = "record_failed",
                "cannot record whether {} is dirty: {error}",
                volume.name
            ),
        }
    }

    /// Records size and times of a volume's origin; to be called after all writes to it are durable. A
    /// failure is only logged.
    pub(crate) fn note_stop(&self, id: VolumeId, stamp: FileStamp) {
        let Some(Ok(store)) = &self.store else { return };
        let mut volumes = self.lock();
        let Some(volume) = volumes.iter_mut().find(|volume| volume.id == id) else { return };
        volume.stopped = Some(stamp);
        if let Err(error) = self.keep(store, volume) {
            tracing::warn!(
                event = "record_failed",
                "cannot record size and times of the origin of {}: {error}",
                volume.name
            );
        }
    }

    /// Notes that an origin differs from the clean blocks of its volume.
    pub(crate) fn note_changed(&self, id: VolumeId) {
        if let Some(volume) = self.lock().iter_mut().find(|volume| volume.id == id) {
            volume.stopped = FileStamp::of_origin(&volume.identity).map(FileStamp::outdated);
        }
    }

    /// Records the new identity of an origin.
    ///
    /// # Errors
    /// If the identity cannot be recorded.
    pub(crate) fn rename(&self, id: VolumeId, identity: &str) -> Result<(), StateError> {
        let mut volumes = self.lock();
        let Some(volume) = volumes.iter_mut().find(|volume| volume.id == id) else { return Ok(()) };
        let older = std::mem::replace(&mut volume.identity, identity.into());
        volume.file = FileIdentity::of_origin(identity);
        let Some(Ok(store)) = &self.store else { return Ok(()) };
        self.keep(store, volume)?;
        store.forget_origin(&older)
    }

    /// The writer of the record that the cache device is out of service; `None` without a usable state directory.
    pub(crate) fn keeper(&self) -> Option<RecordSink> {
        let Some(Ok(store)) = &self.store else { return None };
        let (store, cache) = (store.clone(), Arc::clone(&self.cache));
        let names = Arc::clone(&self.names);
        Some(Box::new(move |incomplete: VolumeSet| {
            let names = names.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let named = names.iter().filter(|(id, _)| incomplete.contains(*id)).map(|(_, name)| name.clone());
            let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = keep_out_of_service(&store, &cache, named.collect());
            drop(cache);
            if let Err(error) = &kept {
                tracing::error!(
                    event = "record_failed",
                    "cannot record that the cache device is out of service: {error}"
                );
            }
            kept.is_ok()
        }))
    }

    /// Records which blocks are still the newest on a cache device out of service. `known` are all volumes of
    /// the device.
    pub(crate) fn note_newest(&self, newest: Vec<NewestBlocks>, known: Vec<String>) {
        let Some(Ok(store)) = &self.store else { return };
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = || store.cache(&cache.uuid).map(|record| record?.out_of_service);
        let keep = || {
            if noted()?.is_none() {
                keep_out_of_service(store, &cache, known)?;
            }
            let out_of_service = noted()?.map(|out| out.with_newest(newest));
            store.keep_cache(&CacheRecord { out_of_service, ..cache.clone() })
        };
        if let Err(error) = keep() {
            tracing::warn!(
                event = "record_failed",
                "cannot record which blocks are newest on the cache device: {error}"
            );
        }
    }

    pub(crate) fn store(&self) -> Option<&StateStore> {
        self.store.as_ref()?.as_ref().ok()
    }

    /// As [`OriginRecords::keep`]; then removes the record that an older version wrote under another
    /// identity.
    fn keep_first(&self, store: &StateStore, volume: &VolumeEntry) -> Result<(), StateError> {
        self.keep(store, volume)?;
        volume.before.as_ref().map_or(Ok(()), |before| store.forget_older(before))
    }

    fn keep(&self, store: &StateStore, volume: &VolumeEntry) -> Result<(), StateError> {
        let record = OriginRecord::new(&volume.identity, &volume.name, &self.cache(), volume.completeness);
        let record = OriginRecord { file: volume.file, stopped: volume.stopped, ..record };
        store.keep_origin(&match &volume.before {
            Some(before) => record.after(before),
            None => record,
        })
    }

    pub(crate) fn cache(&self) -> CacheRecord {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<VolumeEntry>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of a cache device from before this start.
fn record_before(store: &StateStore, cache: &CacheRecord) -> Option<CacheRecord> {
    let device = cache.path.display();
    match store.cache(&cache.uuid) {
        // A device that was started before has a record, unless it was served with another state directory or the
        // record was removed.
        Ok(None) if cache.starts > FIRST_START => {
            tracing::warn!(
                event = "record_missing",
                "{device} was served before, and the state directory has no record for it: if another \
                 directory has one, stop, and name that with --state; otherwise an older copy is not \
                 detected"
            );
            None
        }
        Ok(record) => record,
        Err(error) => {
            tracing::warn!(
                event = "record_unreadable",
                "the record of {device} cannot be used and is replaced, so that this start cannot detect whether the device is an \
                 older copy: {error}"
            );
            None
        }
    }
}

pub(crate) fn keep_out_of_service(
    store: &StateStore,
    cache: &CacheRecord,
    incomplete: Vec<String>,
) -> Result<(), StateError> {
    let before = store.cache(&cache.uuid).ok().flatten();
    let starts = before.as_ref().map_or(0, |record| record.starts).max(cache.starts);
    let before = before.and_then(|record| record.out_of_service);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let since = before.as_ref().map_or_else(now, |before| before.since);
    let newest = before.map_or_else(Vec::new, |before| before.newest);
    store.keep_cache(&CacheRecord {
        starts,
        out_of_service: Some(OutOfService { since, incomplete, newest }),
        ..cache.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::older_copy::older_copy;
    use crate::log::logged::logged;

    fn noted(before: Option<(u64, Completeness)>, starts: u64, holdings: Holdings) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let (place, store) = (StatePlace::Directory(folder.path().into()), StateStore::new(folder.path()));
        let superblock = |starts| {
            let fresh = Superblock::new([7; 16], 8 << 20).unwrap();
            Superblock { starts, ..fresh }
        };
        if let Some((starts, completeness)) = before {
            let cache = CacheRecord::new(&superblock(starts), "/c".into());
            store.keep_cache(&cache).unwrap();
            store.keep_origin(&OriginRecord::new("file:/o", "v", &cache, completeness)).unwrap();
        }
        let (mode, access) = (Mode::WriteThrough, AccessMode::ReadWrite);
        let volume = Candidate { name: "v", identity: "file:/o", mode, access, holdings };
        OriginRecords::begin(&place, (&superblock(starts), Path::new("/c")), &[(VolumeId::new(0), volume)])
            .unwrap();
        let record = store.origin("file:/o").unwrap().unwrap();
        assert_eq!(record.is_complete(&superblock(starts)), !record.may_be_dirty);
        assert!(!record.is_complete(&superblock(starts + 1)));
        record.may_be_dirty
    }

    /// A crash before the log was read must not leave a record that the origin is complete.
    #[test]
    fn blocks_written_without_records_may_be_dirty() {
        assert!(!noted(None, 2, Holdings::Nothing));
        assert!(noted(None, 2, Holdings::Earlier));
        assert!(!noted(Some((4, Completeness::Complete)), 5, Holdings::Earlier));
        assert!(noted(Some((4, Completeness::MayBeDirty)), 5, Holdings::Earlier));
        assert!(noted(Some((4, Completeness::Complete)), 6, Holdings::Earlier));
    }

    #[test]
    fn an_unreadable_record_does_not_count_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (place, store) = (StatePlace::Directory(folder.path().into()), StateStore::new(folder.path()));
        let superblock = Superblock { starts: 5, ..Superblock::new([7; 16], 8 << 20).unwrap() };
        let begin = || logged(|| drop(served(&place, &superblock)));
        let missing = begin();
        assert!(missing.contains("the state directory has no record for it"), "{missing}");
        assert_eq!(begin(), "");
        std::fs::write(store.cache_note(&uuid_text(superblock.uuid)), "{").unwrap();
        let unreadable = begin();
        assert!(unreadable.contains("the record of /old cannot be used"), "{unreadable}");
        assert!(!unreadable.contains("has no record for it"), "{unreadable}");
        assert_eq!(begin(), "", "the record is replaced");
    }

    fn served(place: &StatePlace, superblock: &Superblock) -> OriginRecords {
        let (mode, access) = (Mode::WriteThrough, AccessMode::ReadWrite);
        let holdings = Holdings::Nothing;
        let volume = Candidate { name: "v", identity: "file:/o", mode, access, holdings };
        OriginRecords::begin(place, (superblock, Path::new("/old")), &[(VolumeId::new(0), volume)]).unwrap()
    }

    #[test]
    fn a_successor_is_recorded_with_its_number_and_path() {
        let folder = tempfile::tempdir().unwrap();
        let (place, store) = (StatePlace::Directory(folder.path().into()), StateStore::new(folder.path()));
        let old = Superblock { starts: 5, ..Superblock::new([7; 16], 8 << 20).unwrap() };
        let cache = CacheRecord::new(&old, "/old".into());
        let origin = |name: &str| OriginRecord::new(name, name, &cache, Completeness::MayBeDirty);
        let other = CacheRecord::new(&Superblock::new([8; 16], 8 << 20).unwrap(), "/old".into());
        store.keep_origin(&origin("file:/not-served")).unwrap();
        store.keep_origin(&OriginRecord { cache_uuid: other.uuid, ..origin("file:/of-another") }).unwrap();
        let notes = served(&place, &old);
        assert!(older_copy(&place, &old, Path::new("/old")).is_none());

        notes.keeper().unwrap()(VolumeSet::default());
        let new = old.succeeded();
        notes.take_over(&new, Path::new("/new")).unwrap();
        let copy = older_copy(&place, &old, Path::new("/old")).unwrap();
        assert_eq!((copy.found, copy.noted, copy.newer), (5, 6, Some("/new".into())));
        assert!(older_copy(&place, &new, Path::new("/new")).is_none());
        let record = store.cache(&cache.uuid).unwrap().unwrap();
        assert!(record.out_of_service.is_some(), "the record of another writer stays");
        let path = |name: &str| store.origin(name).unwrap().unwrap().cache_path;
        assert_eq!(["file:/o", "file:/not-served"].map(path), [Path::new("/new"); 2]);
        assert_eq!(path("file:/of-another"), Path::new("/old"));
        assert!(store.origin("file:/o").unwrap().unwrap().is_complete(&new));

        store.remove_cache(&cache.uuid).unwrap();
        notes.keeper().unwrap()(VolumeSet::default());
        notes.note_completeness(VolumeId::new(0), Completeness::MayBeDirty);
        let record = store.cache(&cache.uuid).unwrap().unwrap();
        assert_eq!(
            (record.starts, &*record.path, &*path("file:/o")),
            (6, Path::new("/new"), Path::new("/new"))
        );
    }

    #[test]
    fn an_unrecorded_volume_is_not_added_in_any_mode() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state");
        let notes =
            served(&StatePlace::Directory(directory.clone()), &Superblock::new([7; 16], 8 << 20).unwrap());
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::write(&directory, "no directory").unwrap();
        for mode in [Mode::WriteThrough, Mode::WriteBack] {
            let (access, holdings) = (AccessMode::ReadWrite, Holdings::Nothing);
            let volume = Candidate { name: "w", identity: "file:/w", mode, access, holdings };
            let refused = notes.join(VolumeId::new(1), &volume).unwrap_err().to_string();
            assert!(refused.contains("make room in the state directory"), "{refused}");
            assert!(!refused.contains("another mode"), "{refused}");
        }
    }

    #[test]
    fn an_unrecorded_takeover_is_reported_and_continues() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state");
        let place = StatePlace::Directory(directory.clone());
        let old = Superblock::new([7; 16], 8 << 20).unwrap();
        let notes = served(&place, &old);
        std::fs::rename(&directory, folder.path().join("kept")).unwrap();
        std::fs::write(&directory, "no directory").unwrap();
        let new = old.succeeded();
        assert!(notes.take_over(&new, Path::new("/new")).is_err());
        std::fs::remove_file(&directory).unwrap();
        std::fs::rename(folder.path().join("kept"), &directory).unwrap();
        notes.expect_dirty("v").unwrap();
        let record = StateStore::new(&directory).origin("file:/o").unwrap().unwrap();
        assert_eq!((record.may_be_dirty, &*record.cache_path), (true, Path::new("/new")));
    }

    #[test]
    fn a_complete_volume_is_recorded_again_before_write_back() {
        let folder = tempfile::tempdir().unwrap();
        let (place, store) = (StatePlace::Directory(folder.path().into()), StateStore::new(folder.path()));
        let notes = served(&place, &Superblock::new([7; 16], 8 << 20).unwrap());
        let may_be_dirty = || store.origin("file:/o").unwrap().unwrap().may_be_dirty;
        for _ in 0..2 {
            notes.expect_dirty("v").unwrap();
            assert!(may_be_dirty());
            notes.note_completeness(VolumeId::new(0), Completeness::Complete);
            assert!(!may_be_dirty());
        }
    }

    fn added<'a>(name: &'a str, identity: &'a str) -> Candidate<'a> {
        let (mode, access) = (Mode::WriteBack, AccessMode::ReadWrite);
        Candidate { name, identity, mode, access, holdings: Holdings::Nothing }
    }

    #[test]
    fn an_added_volume_has_a_record_under_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let (place, store) = (StatePlace::Directory(folder.path().into()), StateStore::new(folder.path()));
        let superblock = Superblock::new([7; 16], 8 << 20).unwrap();
        let (notes, id) = (served(&place, &superblock), VolumeId::new(1));
        let incomplete = || {
            assert!(notes.keeper().unwrap()(VolumeSet::ALL));
            let mut names =
                store.cache(&notes.cache().uuid).unwrap().unwrap().out_of_service.unwrap().incomplete;
            names.sort();
            names
        };
        notes.join(id, &added("w", "file:/w")).unwrap();
        let record = store.origin("file:/w").unwrap().unwrap();
        assert_eq!((record.may_be_dirty, &*record.cache_path), (true, Path::new("/old")));
        assert_eq!((record.volume, record.cache_uuid), ("w".into(), notes.cache().uuid));
        assert_eq!(incomplete(), ["w"]);
        notes.part(id).unwrap();
        assert!(!store.origin("file:/w").unwrap().unwrap().may_be_dirty);
        assert!(incomplete().is_empty());
        notes.join(id, &added("x", "file:/x")).unwrap();
        assert_eq!(incomplete(), ["x"]);
        notes.undo_join(id);
        assert!(store.origin("file:/x").unwrap().is_none());
    }

    #[test]
    fn a_volume_without_a_record_is_not_added() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state");
        let place = StatePlace::Directory(directory.clone());
        let notes = served(&place, &Superblock::new([7; 16], 8 << 20).unwrap());
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::write(&directory, "no directory").unwrap();
        assert!(notes.join(VolumeId::new(1), &added("w", "file:/w")).is_err());
        assert!(notes.take(VolumeId::new(1)).is_none(), "no later record is written");
    }

    #[test]
    fn write_back_waits_for_its_durable_record() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state");
        let place = StatePlace::Directory(directory.clone());
        let superblock = Superblock::new([7; 16], 8 << 20).unwrap();
        let (mode, access) = (Mode::WriteThrough, AccessMode::ReadWrite);
        let holdings = Holdings::Nothing;
        let volume = Candidate { name: "v", identity: "file:/o", mode, access, holdings };
        let id = VolumeId::new(0);
        let notes = OriginRecords::begin(&place, (&superblock, Path::new("/c")), &[(id, volume)]).unwrap();
        let kept = folder.path().join("kept");
        std::fs::rename(&directory, &kept).unwrap();
        std::fs::write(&directory, "no directory").unwrap();
        notes.note_completeness(id, Completeness::MayBeDirty);
        assert!(notes.expect_dirty("v").is_err());
        std::fs::remove_file(&directory).unwrap();
        std::fs::rename(&kept, &directory).unwrap();
        notes.expect_dirty("v").unwrap();
        assert!(StateStore::new(&directory).origin("file:/o").unwrap().unwrap().may_be_dirty);
    }
}
