//! `kickcache drain`: has all dirty blocks of a volume written back.

use std::io::Write;
use std::time::Duration;

use anyhow::anyhow;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;
use crate::control::report::{Report, VolumeReport};
use crate::units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  kickcache drain vm1                   begin, and come back at once
  kickcache drain vm1 --wait            come back when the origin has everything, flushed";

/// How often the daemon is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Write all dirty blocks of a volume back to its origin
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DrainArgs {
    /// Name of the volume
    volume: String,
    /// Wait until nothing is dirty and the origin has flushed
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl DrainArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        client.drain(&self.volume)?;
        let mut left = self.left(&client.status()?)?;
        writeln!(out, "{}: {} to write back", self.volume, show_bytes(left))?;
        while self.wait && left > 0 {
            std::thread::sleep(ASK_EVERY);
            left = self.left(&client.status()?)?;
        }
        if self.wait {
            writeln!(out, "{}: drained; the origin has everything", self.volume)?;
        }
        Ok(())
    }

    /// Bytes that are dirty, or written back and not flushed.
    fn left(&self, report: &Report) -> anyhow::Result<u64> {
        let volume = find(report, &self.volume)
            .ok_or_else(|| anyhow!("the volume `{}` is not served any longer", self.volume))?;
        Ok(volume.dirty_bytes + volume.unflushed_bytes)
    }
}

fn find<'a>(report: &'a Report, name: &str) -> Option<&'a VolumeReport> {
    report.caches.iter().flat_map(|cache| &cache.volumes).find(|volume| volume.name == name)
}
