//! `kickcache pause-caching`: stops caching reads for a time, for example during a backup.

use std::io::Write;
use std::time::Duration;

use kickcache_command::exit::Failure;
use kickcache_command::options::{ControlOption, parse_span};

const EXAMPLES: &str = "\
Examples:
  kickcache pause-caching vm1 --for 2h  before a backup reads all of vm1
  kickcache pause-caching vm1 --end     when it is done early";

/// Stop caching reads of a volume for a time
///
/// For backups and scans: their reads would displace the data of other clients. Cached data is still served,
/// and writes follow the mode of the volume. The pause ends after the time, with --end, and with the daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PauseCachingArgs {
    /// Name of the volume
    volume: String,
    /// Length of the pause, 1s to 366d, such as 90s, 30m, 2h or 1d; a number without a unit is in seconds
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span, required_unless_present = "end")]
    span: Option<Duration>,
    /// End the pause now
    #[arg(long, conflicts_with = "span")]
    end: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl PauseCachingArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let span = self.span.unwrap_or(Duration::ZERO);
        self.control.client().pause_caching(&self.volume, span)?;
        let volume = &self.volume;
        match span.as_secs() {
            0 => writeln!(out, "{volume}: reads are cached again")?,
            seconds => writeln!(out, "{volume}: reads are not cached for {seconds} s")?,
        }
        Ok(())
    }
}
