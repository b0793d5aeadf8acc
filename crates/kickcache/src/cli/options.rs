//! Arguments that several commands share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_daemon::control::client::Client;
use kickcache_daemon::plan::default_paths::{SYSTEM_CONTROL, default_control};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::state::default_directory;
use kickcache_model::trace_file::Format;
use kickcache_units::Size;

/// The daemon of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlOption {
    /// Control socket of the daemon
    ///
    /// Default: $XDG_RUNTIME_DIR/kickcache/control.sock, or /run/kickcache/control.sock if that variable is
    /// not set. If the first does not exist, commands try the second. Each daemon needs a socket of its own.
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

impl ControlOption {
    pub(crate) fn path(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(default_control)
    }

    /// A client of the daemon that is meant: without a path, of the user's own, or else of the system's.
    pub(crate) fn client(&self) -> Client {
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
pub(crate) struct StateOption {
    /// State directory: records the cache device of each origin, and whether the origin may lack dirty blocks
    ///
    /// Default: $KICKCACHE_STATE; else /var/lib/kickcache for root, $XDG_STATE_HOME/kickcache or
    /// ~/.local/state/kickcache for other users.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

impl StateOption {
    pub(crate) fn place(&self) -> StatePlace {
        state_place(self.state.as_deref())
    }
}

/// The state directory that is meant.
pub(crate) fn state_place(named: Option<&Path>) -> StatePlace {
    match named.map(Path::to_path_buf).or_else(default_directory) {
        Some(directory) => StatePlace::Directory(directory),
        None => StatePlace::Missing,
    }
}

/// Reads the size of a new cache file.
pub(crate) fn parse_cache_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    kickcache_daemon::plan::check_cache_size(size).map_err(|error| error.to_string())?;
    Ok(size)
}

/// Reads the name of a format of traces.
pub(crate) fn parse_format(text: &str) -> Result<Format, String> {
    let names = || Format::ALL.map(Format::name).join(", ");
    let found = Format::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| format!("`{text}` is not a format; use one of {}", names()))
}

/// Reads a number of seconds, such as `5` or `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("`{text}` is not a number of seconds from 0.1 to 86400"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a time span, such as `90s`, `30m`, `1h` or `2d`; a number without a unit is in seconds.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("`{text}` is not a span of time; write a number with s, m, h or d, such as 90s or 1h");
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| wrong())?;
    let span = number.checked_mul(seconds).filter(|span| (1..=366 * 86_400).contains(span));
    span.map(Duration::from_secs).ok_or_else(|| format!("`{text}` is not from 1s to 366d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_a_unit() {
        let seconds = |text| parse_span(text).map(|span| span.as_secs());
        assert_eq!(
            [seconds("90"), seconds("30m"), seconds("1h"), seconds("2d")],
            [90, 1_800, 3_600, 172_800].map(Ok)
        );
        for bad in ["", "h", "1w", "0s", "-1h", "1.5h", "367d", "99999999999999999999d", "1 h"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_format_is_one_of_the_known() {
        assert!(parse_format("pcap").unwrap_err().contains("blktrace"));
    }
}
