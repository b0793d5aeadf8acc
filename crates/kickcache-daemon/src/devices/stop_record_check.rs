//! Whether cached blocks belong to an origin, by the record of its last stop.
//!
//! Block devices and exports are not checked.

use kickcache_units::counted;

use crate::devices::bypassed_device::Sameness;
use crate::devices::recognition::Doubt;
use crate::devices::state::FileStamp;
use crate::driver::device::identity::path_of_file;
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;
use crate::serve::origin::ComparedBlocks;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LastStop {
    /// The record equals the origin's file, the origin is no file, there is no state directory, or the user
    /// gave a flag about its content.
    #[default]
    Checked,
    /// The stop has no record, or the record has another size or other times than the file.
    Unrecorded,
}

impl LastStop {
    /// The last stop of an origin; to be called before this start is recorded.
    pub(crate) fn of(place: &StatePlace, identity: &str, claims: OriginClaims) -> LastStop {
        let Some(store) = place.store().filter(|_| path_of_file(identity).is_some()) else {
            return LastStop::Checked;
        };
        if claims.changed || Sameness::of(claims) == Sameness::Said {
            return LastStop::Checked;
        }
        let stopped = store.origin(identity).ok().flatten().and_then(|record| record.stopped);
        match stopped == FileStamp::of_origin(identity) && stopped.is_some() {
            true => LastStop::Checked,
            false => LastStop::Unrecorded,
        }
    }
}

/// Checks of an origin that need the cached blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct OriginCheck {
    /// Set if the origin may be another disk.
    pub(crate) doubt: Option<Doubt>,
    pub(crate) last_stop: LastStop,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    Same,
    /// This number of compared blocks shows no change, which does not exclude one.
    NoProof(usize),
    /// The origin was changed: the clean blocks are stale, and the dirty ones must not be written over it.
    Changed(String),
}

impl OriginCheck {
    pub(crate) fn needs_samples(&self) -> bool {
        self.doubt.is_some() || self.last_stop == LastStop::Unrecorded
    }

    /// Decides by the number of cached blocks and the comparison.
    ///
    /// # Errors
    /// A sentence, if the origin may be another disk.
    pub(crate) fn decide(&self, cached: u64, compared: &ComparedBlocks) -> Result<Finding, String> {
        if let Some(doubt) = &self.doubt {
            doubt.check(cached, compared)?;
        }
        if cached == 0 || self.last_stop == LastStop::Checked {
            return Ok(Finding::Same);
        }
        Ok(match compared.difference() {
            Some(difference) => Finding::Changed(difference),
            None => Finding::NoProof(compared.count),
        })
    }
}

pub(crate) fn warn_of_no_proof(volume: &str, compared: usize) {
    tracing::warn!(
        event = "origin_change_unknown",
        "it is unknown whether the origin of {volume} was changed since its daemon was killed: {} of the origin {} as cached; if \
         another program wrote to it, stop, and start with --origin-changed",
        counted(compared as u64, "block"),
        if compared == 1 { "is" } else { "are" }
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::bypassed_device::{ServedSince, served_since};
    use crate::devices::state::{CacheRecord, Completeness, OriginRecord, StateStore};

    #[test]
    fn a_file_that_was_written_after_its_stop_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let place = StatePlace::Directory(folder.path().join("state"));
        let store = StateStore::new(&folder.path().join("state"));
        let file = folder.path().join("origin");
        std::fs::write(&file, [0; 4096]).unwrap();
        let identity = format!("file:{}", file.display());
        let (unsaid, moved) =
            (OriginClaims::default(), OriginClaims { moved: true, ..OriginClaims::default() });
        let grown = OriginClaims { grown: true, ..OriginClaims::default() };
        let found = |claims| {
            let since = served_since(&place, "u", &identity, Sameness::of(claims));
            (since, LastStop::of(&place, &identity, claims))
        };
        assert_eq!(found(unsaid), (None, LastStop::Unrecorded));

        let (uuid, path) = ("u".into(), "/c".into());
        let cache = CacheRecord { version: 1, uuid, path, starts: 2, out_of_service: None };
        let record = OriginRecord::new(&identity, "v", &cache, Completeness::Complete);
        let keep = |stopped| store.keep_origin(&OriginRecord { stopped, ..record.clone() }).unwrap();
        keep(None);
        assert_eq!(found(unsaid), (None, LastStop::Unrecorded), "after a kill");
        let stamp = FileStamp::of_origin(&identity).unwrap();
        keep(Some(stamp));
        assert_eq!(found(unsaid), (None, LastStop::Checked));
        for other in [
            FileStamp { modified_ns: stamp.modified_ns - 1, ..stamp },
            FileStamp { changed_ns: stamp.changed_ns - 1, ..stamp },
            stamp.outdated(),
        ] {
            keep(Some(other));
            assert_eq!(found(unsaid).0, Some(ServedSince::Changed), "{other:?}");
            assert_eq!(found(moved), (None, LastStop::Checked));
        }
        keep(Some(FileStamp { size: 4095, ..stamp }));
        assert_eq!(found(grown), (None, LastStop::Unrecorded), "its other bytes are compared");
        assert_eq!(LastStop::of(&place, "block:/dev/vdb", unsaid), LastStop::Checked);
    }

    #[test]
    fn a_difference_counts_only_for_cached_blocks() {
        let decide = |last_stop, cached, different: &[u64]| {
            let compared = ComparedBlocks { count: 7, different: different.into() };
            OriginCheck { doubt: None, last_stop }.decide(cached, &compared).unwrap()
        };
        assert_eq!(decide(LastStop::Unrecorded, 0, &[4096]), Finding::Same);
        assert!(matches!(decide(LastStop::Unrecorded, 1, &[4096]), Finding::Changed(_)));
        assert_eq!(decide(LastStop::Unrecorded, 1, &[]), Finding::NoProof(7));
        assert_eq!(decide(LastStop::Checked, 1, &[4096]), Finding::Same);
    }
}
