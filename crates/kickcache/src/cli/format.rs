//! `kickcache format`: makes a cache device.

use std::io::Write;
use std::path::PathBuf;

use crate::cli::exit::Failure;
use crate::cli::options::parse_cache_size;
use crate::serve::cache_device::{CacheDevice, Overwrite};
use crate::units::{Size, show_bytes};

const EXAMPLES: &str = "\
Examples:
  kickcache format /var/cache/kickcache.img --size 20G
  kickcache format /dev/nvme0n1p4
  kickcache format /dev/nvme0n1p4 --force       even if there is something on it";

/// Make a cache device: an empty cache on a file or a block device
///
/// `serve` formats new and empty cache files itself. Whatever holds data is refused unless --force is given; then the
/// cache that was there is lost, dirty blocks included.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FormatArgs {
    /// File or block device
    cache: PathBuf,
    /// Size of the file, if it must be made: a multiple of 4096 from 8M to 15T
    #[arg(long, value_name = "SIZE", value_parser = parse_cache_size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Format it even if it holds data; the data is lost
    #[arg(long)]
    force: bool,
}

impl FormatArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let overwrite = if self.force { Overwrite::Allow } else { Overwrite::Refuse };
        let size = self.size.map(Size::bytes);
        let made = CacheDevice::format(&self.cache, size, overwrite).map_err(anyhow::Error::from)?;
        let geometry = &made.superblock.geometry;
        let (bytes, segment) = (show_bytes(geometry.device_size), show_bytes(geometry.segment_size));
        let count = geometry.segment_count;
        Ok(writeln!(out, "{}: a cache of {bytes}, {count} segments of {segment}", self.cache.display())?)
    }
}
