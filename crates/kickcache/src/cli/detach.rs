//! `kickcache detach`: removes a volume from a cache device that no daemon serves.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_command::options::StateOption;
use kickcache_daemon::devices::offline::OfflineError;
use kickcache_daemon::devices::offline::change::{DirtyBlocks, detach};
use kickcache_daemon::devices::offline::older_copy::older_copy_at;
use kickcache_daemon::devices::offline::out_of_service::out_of_service;
use kickcache_daemon::devices::offline::ublk;
use kickcache_daemon::devices::state::{OriginRecord, StateError, StateStore, uuid_text};
use kickcache_units::printable::printable_line;
use kickcache_units::show_bytes;

use crate::cli::device_state::print_older_copy;

const EXAMPLES: &str = "\
Examples:
  kickcache drain vm1 --cache /var/cache/vms.img && kickcache detach /var/cache/vms.img vm1
  kickcache detach /var/cache/vms.img vm1 --lose-dirty      although the origin lacks some blocks";

const EXTENTS_SHOWN: usize = 16;

/// Remove a volume and its blocks from a cache device
///
/// The origin is unchanged. Refused while the volume has dirty blocks that its origin may lack, and while a
/// daemon serves the cache device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DetachArgs {
    /// File or block device
    cache: PathBuf,
    /// Name of the volume
    volume: String,
    /// Lose the dirty blocks of the volume
    #[arg(long)]
    lose_dirty: bool,
    #[command(flatten)]
    state: StateOption,
}

impl DetachArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let dirty = if self.lose_dirty { DirtyBlocks::Lose } else { DirtyBlocks::Keep };
        let state = self.state.place();
        if let Some(standing) = out_of_service(&self.cache, &state, &[]).map_err(anyhow::Error::from)? {
            let out = OfflineError::OutOfService { state, path: self.cache.clone() };
            return Err(anyhow::Error::from(standing.doubt.map_or(out, OfflineError::State)).into());
        }
        ublk::check_name_is_free(&self.cache, &self.volume).map_err(anyhow::Error::msg)?;
        let copy = older_copy_at(&self.cache, &state);
        let done = match (detach(&self.cache, &self.volume, dirty, &state), &copy) {
            (Ok(done), _) => done,
            (Err(error), Some(copy)) => {
                return Err(anyhow!("{}; and {copy}", error.of_older_copy(copy)).into());
            }
            (Err(error), None) => return Err(anyhow::Error::from(error).into()),
        };
        // For an older copy, the record is of the newer device.
        if let Some(store) = state.store().filter(|_| copy.is_none()) {
            record_clean(&store, &done.origin, done.uuid).map_err(anyhow::Error::from)?;
        }
        let clean = show_bytes(done.clean_blocks * 4096);
        let whole = if copy.is_none() {
            "which the origin has"
        } else {
            "possibly older than the data of the origin"
        };
        let name = printable_line(&self.volume);
        writeln!(out, "{name}: detached; {clean} of clean blocks dropped, {whole}")?;
        print_older_copy(out, copy.as_ref())?;
        if !done.complete.is_empty() {
            let bytes: u64 = done.complete.iter().map(|extent| extent.length).sum();
            writeln!(
                out,
                "{} were called dirty after a crash and dropped; the origin has them",
                show_bytes(bytes)
            )?;
        }
        if done.lost.is_empty() {
            return Ok(());
        }
        let lost: u64 = done.lost.iter().map(|extent| extent.length).sum();
        writeln!(out, "{} of dirty blocks LOST, as byte offset + length:", show_bytes(lost))?;
        for extent in done.lost.iter().take(EXTENTS_SHOWN) {
            writeln!(out, "  {} + {}", extent.start, extent.length)?;
        }
        if done.lost.len() > EXTENTS_SHOWN {
            writeln!(out, "  and {} more", done.lost.len() - EXTENTS_SHOWN)?;
        }
        Ok(())
    }
}

/// Clears the dirty flag of the origin's record, if the record is about this cache device. The record stays,
/// since data of the origin on other cache devices is stale.
fn record_clean(store: &StateStore, origin: &str, uuid: [u8; 16]) -> Result<(), StateError> {
    let record = store.origin(origin).ok().flatten();
    let is_own = |record: &OriginRecord| record.cache_uuid == uuid_text(uuid);
    match record.filter(is_own) {
        Some(record) => store.keep_origin(&OriginRecord { may_be_dirty: false, ..record }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kickcache_daemon::devices::state::{CacheRecord, Completeness};
    use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
    use kickcache_engine::format::superblock::Superblock;

    use super::*;

    const ORIGIN: &str = "file:/vm1";

    fn may_be_dirty_after(detached: u8, recorded: u8) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let store = StateStore::new(directory.path());
        let superblock = Superblock::new([recorded; 16], DEVICE_SIZE_MIN).unwrap();
        let cache = CacheRecord::new(&superblock, "/cache".into());
        let record = OriginRecord::new(ORIGIN, "vm1", &cache, Completeness::MayBeDirty);
        store.keep_origin(&record).unwrap();
        record_clean(&store, ORIGIN, [detached; 16]).unwrap();
        record_clean(&store, "file:/another", [detached; 16]).unwrap();
        let found = store.origin(ORIGIN).unwrap().unwrap();
        let may_be_dirty = found.may_be_dirty;
        assert_eq!(OriginRecord { may_be_dirty: true, ..found }, record, "the rest stays");
        assert_eq!(store.origin("file:/another").unwrap(), None, "there was no record");
        may_be_dirty
    }

    #[test]
    fn only_the_record_about_the_detached_device_changes() {
        assert_eq!([may_be_dirty_after(1, 1), may_be_dirty_after(1, 2)], [false, true]);
    }
}
