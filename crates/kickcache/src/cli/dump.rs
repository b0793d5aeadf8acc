//! `kickcache dump`: the structures on a cache device, as JSON.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use kickcache_command::exit::Failure;
use kickcache_daemon::devices::offline::dump::{DumpError, dump};

const EXAMPLES: &str = "\
Examples:
  kickcache dump /var/cache/vm1.img > vm1.json
  kickcache dump /dev/nvme0n1p4 | jq '.superblocks[0].volumes'
  kickcache dump /dev/nvme0n1p4 | jq -c '.journal[].records[]? | select(.fact == \"opened\")'";

/// Print the superblocks, journal, summaries and batch headers of a cache device as JSON
///
/// Prints the structures as they are on the device, without data and without recovery (`inspect` shows the state after
/// recovery). A journal block is one line of the document, and so is a segment. Refused while a daemon serves the cache
/// device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    /// File or block device
    cache: PathBuf,
}

impl DumpArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut out = BufWriter::new(out);
        match dump(&self.cache, &mut out) {
            Ok(()) => Ok(out.flush()?),
            // Not wrapped, so that a closed pipe is recognised.
            Err(DumpError::Write(error)) => Err(error.into()),
            Err(DumpError::Device(error)) => Err(anyhow::Error::from(error).into()),
        }
    }
}
