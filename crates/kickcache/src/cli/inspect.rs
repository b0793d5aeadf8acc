//! `kickcache inspect`: reads a cache device that nobody serves, and changes nothing.

use std::io::Write;
use std::path::PathBuf;

use crate::cli::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  kickcache inspect /var/cache/kickcache.img
  kickcache inspect /dev/nvme0n1p4 --json | jq '.volumes[] | {name, dirty_bytes}'";

/// Show what is on a cache device: superblock, segments, volumes, and what is dirty
///
/// Only reads. A cache device that a daemon serves is refused; `status` shows that one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// File or block device
    cache: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl InspectArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let _ = (self.json, out);
        Err(Failure::usage(format!("{}: inspecting is not part of this build", self.cache.display())))
    }
}
