//! `kickcache format`: makes a cache device.

use std::io::Write;
use std::path::PathBuf;

use kickcache_command::exit::Failure;
use kickcache_command::options::{StateOption, parse_cache_size};
use kickcache_daemon::devices::cache_device::Overwrite;
use kickcache_daemon::devices::offline::format_check::FormatCheck;
use kickcache_units::{Size, show_bytes};

const EXAMPLES: &str = "\
Examples:
  kickcache format /var/cache/kickcache.img --size 20G
  kickcache format /dev/nvme0n1p4
  kickcache format /dev/nvme0n1p4 --force       even if it holds data";

/// Format a file or a block device as an empty cache device
///
/// `serve` formats new, empty and blank cache files itself. A file or device that holds data is refused
/// without --force; with it, a cache on it is lost, with its dirty blocks. A cache device that is out of
/// service needs no --force, if no blocks are on it alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FormatArgs {
    /// File or block device
    cache: PathBuf,
    /// Size of a new cache file, from 8M to 15T, rounded down to a multiple of 4096
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
        let state = self.state.place();
        let size = self.size.map(Size::bytes);
        let made = FormatCheck { path: &self.cache, size, overwrite, state: &state }.format()?;
        let geometry = &made.superblock.geometry;
        let (bytes, segment) = (show_bytes(geometry.device_size), show_bytes(geometry.segment_size));
        let count = geometry.segment_count;
        Ok(writeln!(out, "{}: a cache of {bytes}, {count} segments of {segment}", self.cache.display())?)
    }
}
