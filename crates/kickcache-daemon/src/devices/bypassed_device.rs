//! Whether an origin was used without its cache device.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::devices::state::{FileIdentity, FileStamp, OriginRecord, StateError};
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;
use crate::shell_command::{Flag, ShellCommand};

/// The reason why the blocks of an origin on a cache device may be stale.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServedSince {
    With(PathBuf),
    Without,
    /// The origin was not served since, but another file is at its path.
    Replaced,
    /// The origin was not served since, but the times of its file have changed.
    Changed,
    Unknown,
}

impl fmt::Display for ServedSince {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedSince::With(path) => {
                write!(to, "its origin was served with the cache device {}", path.display())
            }
            ServedSince::Without => write!(to, "its origin was served without a cache device"),
            ServedSince::Replaced => {
                write!(to, "its origin was replaced (another file is at its path, as after a restore)")
            }
            ServedSince::Changed => write!(
                to,
                "its origin was changed while it was not served (its times differ from the last stop)"
            ),
            ServedSince::Unknown => write!(to, "it is unknown how its origin was served"),
        }
    }
}

impl ServedSince {
    /// A further remedy if the origin was replaced or changed, else an empty text; it follows "; ".
    pub fn other_way(&self, volume: &str) -> String {
        match self {
            ServedSince::Replaced => format!(
                "restore the previous file, or use {} if this one has the same content; otherwise ",
                origin_moved(volume)
            ),
            ServedSince::Changed => {
                format!("confirm with {} if its content is the same; else ", origin_moved(volume))
            }
            ServedSince::With(_) | ServedSince::Without | ServedSince::Unknown => String::new(),
        }
    }
}

/// Whether the user claims that an origin is the recorded one, even with another identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sameness {
    Unsaid,
    Said,
}

impl Sameness {
    pub(crate) fn of(claims: OriginClaims) -> Sameness {
        if claims.moved { Sameness::Said } else { Sameness::Unsaid }
    }
}

/// How an origin was used without the cache device, as far as the records show it.
pub(crate) fn served_since(
    place: &StatePlace,
    uuid: &str,
    identity: &str,
    sameness: Sameness,
) -> Option<ServedSince> {
    let store = place.store()?;
    match store.origin(identity) {
        Ok(None) => None,
        Ok(Some(record)) if record.is_current(uuid) => passed_by(&record, sameness),
        Ok(Some(record)) if record.written_without => Some(ServedSince::Without),
        Ok(Some(record)) => Some(ServedSince::With(record.cache_path)),
        Err(_) if store.origins().is_err() => None,
        Err(_) => Some(ServedSince::Unknown),
    }
}

/// A volume on a cache device that no daemon serves, which may have dirty blocks there.
#[derive(Clone, Copy, Debug)]
pub struct HeldVolume<'a> {
    pub cache: &'a Path,
    pub uuid: &'a str,
    pub name: &'a str,
    pub identity: &'a str,
}

impl HeldVolume<'_> {
    /// The command that writes the blocks back.
    pub fn drain(&self, place: &StatePlace) -> ShellCommand {
        match served_since(place, self.uuid, self.identity, Sameness::Unsaid) {
            Some(_) => ShellCommand::drain_older(self.name, self.cache, place),
            None => ShellCommand::drain_offline(self.name, self.cache).state(place),
        }
    }
}

/// The flag of `kickcache serve` that accepts an origin as the recorded one.
pub fn origin_moved(volume: &str) -> Flag {
    Flag::new("--origin-moved", volume.as_ref())
}

/// See [`ServedSince::Replaced`] and [`ServedSince::Changed`]; `None` if the user claims that the file is the
/// recorded one.
fn passed_by(record: &OriginRecord, sameness: Sameness) -> Option<ServedSince> {
    if sameness == Sameness::Said {
        return None;
    }
    if is_replaced(record) {
        return Some(ServedSince::Replaced);
    }
    let (before, now) = (record.stopped?, FileStamp::of_origin(&record.identity)?);
    (before != now && before.size == now.size).then_some(ServedSince::Changed)
}

/// Whether another file is at the path of an origin than when it was served last; `false` if either file has
/// no identity.
fn is_replaced(record: &OriginRecord) -> bool {
    let (before, now) = (record.file, FileIdentity::of_origin(&record.identity));
    matches!((before, now), (Some(before), Some(now)) if !now.is_same(before))
}

/// The record of an origin, if another cache device than the given one may hold blocks that the origin lacks.
///
/// # Errors
/// If its record is unreadable: such a device may exist.
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

/// If there is a state directory, notes durably that an origin is going to be written without its cache
/// device.
///
/// # Errors
/// If the record cannot be written, and the origin has an earlier record that can be read; otherwise the
/// failure is only logged.
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
                event = "record_failed",
                "{error}: no record exists that {identity} is served without a cache device; if a device \
                 holds blocks of it, detach it there"
            );
            Ok(())
        }
        kept => kept,
    }
}
