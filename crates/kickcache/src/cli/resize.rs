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

/// Extend a volume to the size of its origin
///
/// A virtual machine on vhost-user sees the new size at once, NBD clients when they connect. A volume cannot shrink. If the
/// origin was extended while nobody served it, or is an NBD export, which is not asked while it is served: stop, then
/// `kickcache serve --origin-grown`.
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
        let news = if is_unchanged { ", unchanged" } else { " now" };
        Ok(writeln!(out, "{}: {} ({size_bytes} bytes){news}", self.volume, show_bytes(size_bytes))?)
    }
}
