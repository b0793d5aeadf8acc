//! `kickcache format`: makes a cache device.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use kickcache_daemon::offline::older_copy::older_copy_at;
use kickcache_daemon::offline::standing::out_of_service;
use kickcache_daemon::serve::cache_device::{CacheDevice, Noted, Overwrite};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::serve::known_origin::check_no_origin;
use kickcache_daemon::serve::prepare::noted;
use kickcache_daemon::state::uuid_text;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeSet;
use kickcache_units::{Size, show_bytes};

use crate::cli::exit::Failure;
use crate::cli::not_ours::refuse_dirty;
use crate::cli::options::{StateOption, parse_cache_size};

const EXAMPLES: &str = "\
Examples:
  kickcache format /var/cache/kickcache.img --size 20G
  kickcache format /dev/nvme0n1p4
  kickcache format /dev/nvme0n1p4 --force       even if it holds data";

/// Make a cache device: an empty cache on a file or a block device
///
/// `serve` formats new, empty and blank cache files by itself. A file or device that holds data is refused without --force;
/// with it, a cache that was there is lost, dirty blocks included. A cache device that is out of service needs no --force, if
/// no blocks are on it alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FormatArgs {
    /// File or block device
    cache: PathBuf,
    /// Size of a new file: a multiple of 4096 from 8M to 15T
    #[arg(long, value_name = "SIZE", value_parser = parse_cache_size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Format even if it holds data; the data is lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    state: StateOption,
}

impl FormatArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let overwrite = if self.force { Overwrite::Allow } else { Overwrite::Refuse };
        let size = self.size.map(Size::bytes);
        let state = self.state.place();
        if !self.force {
            check_no_origin(&state, &self.cache).map_err(anyhow::Error::from)?;
            let is_used = out_of_service(&self.cache, &state, &[]).map_err(anyhow::Error::from)?.is_none();
            if is_used && self.cache.exists() {
                refuse_dirty(&self.cache, &state)?;
            }
        }
        let is_copy = older_copy_at(&self.cache, &state).is_some();
        let noted = Noted { state: &state, incomplete: &|old| noted_incomplete(&state, old) };
        let made = CacheDevice::format_noted(&self.cache, size, overwrite, noted);
        let made = made.map_err(anyhow::Error::from)?;
        // The newer one stays noted when an older copy of it is formatted.
        let replaced = made.replaced.filter(|_| !is_copy);
        if let (Some(store), Some(old)) = (state.store(), replaced) {
            let forgotten = store.forget_cache(&uuid_text(old));
            forgotten.context(
                "the cache device was formatted, but its record in the state directory is still the old one",
            )?;
        }
        let geometry = &made.superblock.geometry;
        let (bytes, segment) = (show_bytes(geometry.device_size), show_bytes(geometry.segment_size));
        let count = geometry.segment_count;
        Ok(writeln!(out, "{}: a cache of {bytes}, {count} segments of {segment}", self.cache.display())?)
    }
}

/// The volumes that may need a cache device which is noted as out of service; all, if nobody can say.
fn noted_incomplete(state: &StatePlace, superblock: &Superblock) -> Option<VolumeSet> {
    let all = || superblock.volumes.iter().map(|record| record.id).collect();
    noted(state, superblock).map_or_else(|_| Some(all()), |noted| noted.incomplete)
}
