//! `kickcache pause-caching`: stops caching reads for a time, for example during a backup.

use std::io::Write;
use std::time::Duration;

use kickcache_command::exit::Failure;
use kickcache_command::options::{ControlOption, parse_span};
use kickcache_daemon::control::wire::Request;

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
        let seconds = whole_seconds(self.span.unwrap_or(Duration::ZERO));
        let volume = &self.volume;
        let request = Request::PauseCaching { volume: volume.clone(), seconds };
        let () = self.control.client().request(&request)?;
        match seconds {
            0 => writeln!(out, "{volume}: reads are cached again")?,
            seconds => writeln!(out, "{volume}: reads are not cached for {seconds} s")?,
        }
        Ok(())
    }
}

/// Rounded up: a pause of less than a second must not end the pause.
fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_counts_as_a_second() {
        let spans = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(59_001)];
        assert_eq!(spans.map(whole_seconds), [0, 1, 60]);
    }
}
