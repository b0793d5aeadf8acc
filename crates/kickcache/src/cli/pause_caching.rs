//! `kickcache pause-caching`: reads are not cached for a while, for a backup, say.

use std::io::Write;
use std::time::Duration;

use crate::cli::exit::Failure;
use crate::cli::options::{ControlOption, parse_span};

const EXAMPLES: &str = "\
Examples:
  kickcache pause-caching vm1 --for 2h  before a backup reads all of vm1
  kickcache pause-caching vm1 --end     when it is done early";

/// Keep nothing that is read of a volume for a while
///
/// For backups and scans: what they read would displace what others use. What is cached is served as before, and writes go on as the
/// mode of the volume says. It ends with the time, with --end, and with the daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PauseCachingArgs {
    /// Name of the volume
    volume: String,
    /// For how long, such as 90s, 30m, 2h or 1d; a number alone is one of seconds
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span, required_unless_present = "end")]
    span: Option<Duration>,
    /// End it now
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
            0 => writeln!(out, "{volume}: what is read is cached again")?,
            seconds => writeln!(out, "{volume}: what is read is not cached for {seconds} s")?,
        }
        Ok(())
    }
}
