//! `kickcache format`: makes a cache device.

use std::io::Write;
use std::path::PathBuf;

use crate::cli::exit::Failure;
use crate::cli::options::parse_cache_size;
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
        let _ = (show_bytes(self.size.map_or(0, Size::bytes)), self.force, out);
        Err(Failure::usage(format!("{}: formatting is not part of this build", self.cache.display())))
    }
}
