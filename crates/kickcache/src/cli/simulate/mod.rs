//! `kickcache simulate`: what a cache would do here, without touching a disk.

mod pool;
mod published;
mod published_table;

use std::io::Write;

use clap::Subcommand;

use crate::cli::exit::Failure;

const EXAMPLES: &str = "\
Examples:
  kickcache simulate published                   every published row, its model, and kickcache
  kickcache simulate published --only bcache     only the rows whose name contains a word
  kickcache simulate published --json > rows.json";

/// Simulate caches on virtual devices, in virtual time
///
/// The real engine of kickcache runs beside models of other caches, on models of devices. The same seed gives the same
/// result.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Published(published::PublishedArgs),
}

impl SimulateArgs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        match self.what {
            What::Published(args) => args.run(out),
        }
    }
}
