//! Whether an origin was served past a cache device: with another one, or with none. What the cache device holds of it is
//! old then.

use std::fmt;
use std::path::PathBuf;

use crate::serve::config::StatePlace;
use crate::state::{OriginRecord, StateError};

/// How an origin was served since a cache device had it last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServedSince {
    /// With the cache device that was there.
    With(PathBuf),
    /// From the origin alone.
    Without,
    /// Its note cannot be read.
    Unknown,
}

impl fmt::Display for ServedSince {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedSince::With(path) => {
                write!(to, "its origin was served with the cache device {}", path.display())
            }
            ServedSince::Without => write!(to, "its origin was served without a cache device"),
            ServedSince::Unknown => write!(to, "it is unknown how its origin was served"),
        }
    }
}

/// How an origin was served since; `None` if everything that was written to it passed the cache device, as far as anybody
/// knows.
pub(crate) fn served_since(place: &StatePlace, uuid: &str, identity: &str) -> Option<ServedSince> {
    let store = place.store()?;
    match store.origin(identity) {
        Ok(None) => None,
        Ok(Some(record)) if record.is_current(uuid) => None,
        Ok(Some(record)) if record.written_without => Some(ServedSince::Without),
        Ok(Some(record)) => Some(ServedSince::With(record.cache_path)),
        // Without a directory nothing is known of any origin, which the start says.
        Err(_) if store.origins().is_err() => None,
        Err(_) => Some(ServedSince::Unknown),
    }
}

/// What is noted of an origin, if another cache device than this one may hold blocks which it lacks.
///
/// # Errors
/// If its note cannot be read: nobody can say that there is none.
pub fn missed(
    place: &StatePlace,
    uuid: Option<&str>,
    identity: &str,
) -> Result<Option<OriginRecord>, StateError> {
    let Some(store) = place.store() else { return Ok(None) };
    let is_other = |record: &OriginRecord| uuid.is_none_or(|uuid| record.cache_uuid != uuid);
    let found = store.origin(identity)?;
    Ok(found.filter(|record| record.may_be_dirty && is_other(record)))
}

/// Notes, durably, that an origin is going to be written without the cache device that it was served with.
///
/// # Errors
/// If that cannot be noted, and the note that stands there says something else.
pub(crate) fn note_written_without(
    place: &StatePlace,
    identity: &str,
    volume: &str,
) -> Result<(), StateError> {
    let Some(store) = place.store() else { return Ok(()) };
    let before = store.origin(identity).ok().flatten();
    let record = match before.clone() {
        Some(record) => OriginRecord { written_without: true, ..record },
        None => OriginRecord::without_cache(identity, volume),
    };
    match store.keep_origin(&record) {
        Err(error) if before.is_none() => {
            tracing::warn!(
                "{error}: no record says that {identity} is served without a cache device; if one holds blocks of it, \
                 detach it there"
            );
            Ok(())
        }
        kept => kept,
    }
}
