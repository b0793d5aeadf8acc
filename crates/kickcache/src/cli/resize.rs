//! `kickcache resize`: tells a daemon that an origin was extended.

use std::io::Write;

use kickcache_daemon::control::wire::Resized;
use kickcache_units::show_bytes;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;

const EXAMPLES: &str = "\
Examples:
  lvextend -L +10G vg/vm1 && kickcache resize vm1
  truncate -s 20G /srv/vm1.raw && kickcache resize vm1";

/// Make a volume as large as its origin, which was extended
///
/// A virtual machine on vhost-user is told at once, NBD clients see the new size when they connect. A volume cannot
/// shrink. An origin that was extended while nobody served it: `kickcache serve --origin-grown`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResizeArgs {
    /// Name of the volume
    volume: String,
    #[command(flatten)]
    control: ControlOption,
}

impl ResizeArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Resized { size_bytes, is_unchanged } = self.control.client().resize(&self.volume)?;
        let news = if is_unchanged { ", unchanged" } else { " from here on" };
        Ok(writeln!(out, "{}: {} ({size_bytes} bytes){news}", self.volume, show_bytes(size_bytes))?)
    }
}
