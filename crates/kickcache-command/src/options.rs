//! Arguments that several commands share.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_daemon::control::client::Client;
use kickcache_daemon::plan::default_paths::{SYSTEM_CONTROL, default_control};
use kickcache_daemon::plan::span;
use kickcache_daemon::serve::config::StatePlace;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{Size, SizeError};

use crate::notice::notice;

/// The daemon of the command.
#[derive(Debug, clap::Args)]
pub struct ControlOption {
    /// Control socket of the daemon
    ///
    /// Default: $XDG_RUNTIME_DIR/kickcache/control.sock, or /run/kickcache/control.sock if that variable is
    /// not set. If the first does not exist, commands try the second. Each daemon needs a socket of its own.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

impl ControlOption {
    /// The path of the control socket: as given, or the default path.
    pub fn path(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(default_control)
    }

    /// A client of the daemon at the given path; without one, of the user's own daemon, or else of the
    /// system's.
    pub fn client(&self) -> Client {
        let path = self.path();
        let system = Path::new(SYSTEM_CONTROL);
        if self.control.is_none() && !path.exists() && system.exists() {
            return Client::new(system);
        }
        Client::new(&path)
    }
}

/// The state directory; its records are needed when a cache device is missing.
#[derive(Debug, clap::Args)]
pub struct StateOption {
    /// State directory: records the cache device of each origin, and whether the origin may lack dirty blocks
    ///
    /// Default: $KICKCACHE_STATE; else /var/lib/kickcache for root, $XDG_STATE_HOME/kickcache or
    /// ~/.local/state/kickcache for other users.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl StateOption {
    /// The state directory: as given, or the default directory.
    pub fn place(&self) -> StatePlace {
        StatePlace::named(self.state.as_deref())
    }
}

/// Parses the size of a cache file or the used size of a cache device.
pub fn parse_cache_size(text: &str) -> Result<Size, String> {
    let size = parse_blocks(text)?;
    kickcache_daemon::plan::check_cache_size(size).map_err(|error| error.to_string())?;
    Ok(size)
}

/// Parses a size, and rounds it as [`whole_blocks`] does.
pub fn parse_blocks(text: &str) -> Result<Size, String> {
    text.parse().map(whole_blocks).map_err(|error: SizeError| error.to_string())
}

/// The size, rounded down to whole blocks; a size below a block is not rounded.
pub fn whole_blocks(size: Size) -> Size {
    let (bytes, rest) = (size.bytes(), size.bytes() % BLOCK_SIZE);
    if rest == 0 || bytes < BLOCK_SIZE {
        return size;
    }
    notice(&format!(
        "kickcache: the size of {bytes} bytes is rounded down to {}, a multiple of 4096",
        bytes - rest
    ));
    Size::from_bytes(bytes - rest)
}

/// Parses the interval of a repeated output.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_time(text, Duration::from_millis(100)..=Duration::from_secs(86_400), "0.1s to 1d")
}

/// Parses 1 second to 366 days, in whole seconds.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    parse_whole_seconds(text, 366 * 86_400, "1s to 366d")
}

/// Parses a span of at least one second, in whole seconds; `range` is for the message.
pub fn parse_whole_seconds(text: &str, seconds_max: u64, range: &str) -> Result<Duration, String> {
    let span = parse_time(text, Duration::from_secs(1)..=Duration::from_secs(seconds_max), range)?;
    if span.subsec_nanos() > 0 {
        return Err(format!("`{text}` is not a whole number of seconds"));
    }
    Ok(span)
}

fn parse_time(text: &str, possible: RangeInclusive<Duration>, range: &str) -> Result<Duration, String> {
    let span = span::parse_span(text).ok_or_else(|| {
        format!(
            "`{text}` is not a time; write a number with ms, s, m, h or d, such as 90s or 1h, from {range}"
        )
    })?;
    Some(span).filter(|span| possible.contains(span)).ok_or_else(|| format!("`{text}` is not from {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_a_unit() {
        let seconds = |text| parse_span(text).map(|span| span.as_secs());
        assert_eq!(
            [seconds("90"), seconds("30m"), seconds("1h"), seconds("1.5h"), seconds("2d"), seconds("5000ms")],
            [90, 1_800, 3_600, 5_400, 172_800, 5].map(Ok)
        );
        for bad in ["", "h", "1w", "0s", "-1h", "1.5s", "0.5", "367d", "99999999999999999999d", "1 h"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn intervals_have_the_same_units_as_spans() {
        let millis = |text| parse_interval(text).map(|span| span.as_millis());
        assert_eq!(
            ["0.1", "500ms", "2", "1.5s", "1m", "1d"].map(millis),
            [100, 500, 2_000, 1_500, 60_000, 86_400_000].map(Ok)
        );
        for bad in ["0", "99ms", "soon", "25h", "nan", "inf", "1e3"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_is_rounded_down_to_blocks() {
        let bytes = |text: &str| parse_blocks(text).map(Size::bytes);
        assert_eq!(["16777217", "16M", "4097", "1"].map(bytes), [16_777_216, 16_777_216, 4_096, 1].map(Ok));
        assert_eq!(parse_cache_size("10000000").map(Size::bytes), Ok(9_998_336));
        assert!(parse_cache_size("1").is_err() && parse_blocks("5%").is_err());
    }
}
