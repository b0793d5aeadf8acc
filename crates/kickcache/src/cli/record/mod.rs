//! `kickcache record`: records the requests of a served volume, never their data.

mod end;
mod files;
mod session;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use kickcache_command::closed_output::OutputWatch;
use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::options::{ControlOption, parse_span};
use kickcache_model::trace_file::RecordingHeader;
use kickcache_units::{Size, show_bytes, show_count, show_duration};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::record::end::End;
use crate::cli::record::files::{Bounds, RecordingFiles};
use crate::cli::record::session::Session;

const EXAMPLES: &str = "\
Examples:
  kickcache record vm1 -o vm1.kct               until Ctrl-C, or the file has 1 GiB
  kickcache record vm1 -o vm1.kct --for 1h      for an hour
  kickcache record vm1 -o vm1.kct --size-max 100M --files 5
                                                without end: vm1.kct is the newest, vm1.kct.4 the oldest
  kickcache simulate trace vm1.kct              hit ratios of caches of several sizes
  kickcache trace convert vm1.kct -o vm1.log --to iolog
                                                for fio --read_iolog

A recording ends when this command ends, in any way, when the daemon stops, and when the disk
is nearly full. The part written until then is valid. docs/reference/trace-format.md describes the format.

Exit codes:
  0  the recording ended as requested, or the daemon stopped serving the volume
  1  it ended before: the disk is nearly full, a file cannot be written, or the daemon has ended
  2  an argument is wrong
  3  no daemon answers at the control socket";

const SIZE_MIN: u64 = 256 << 10;

/// Record an I/O trace of a served volume: times, places and kinds of its requests, no data
///
/// Clients are not slowed down: if requests cannot be written in time, they are lost, and the file has their
/// number.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Name of the volume
    volume: String,
    /// File for the recording; an existing file is never overwritten
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Size limit of a file, in bytes
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size_max)]
    size_max: Size,
    /// Number of files, 1 to 1000: a full one becomes FILE.1, the previous one FILE.2, and so on, and the
    /// oldest is removed; with 1 the recording ends when the file is full
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    files: u32,
    /// Length of the recording, 1s to 366d, such as 90s, 30m, 1h or 2d [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    span: Option<Duration>,
    /// Print the counts of the recording as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl RecordArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let bounds = Bounds { size_max: self.size_max.bytes(), file_count: self.files };
        if self.output.as_os_str() == "-" {
            return Err(Failure::usage(
                "a recording is written to a file, not to standard output; name a file, or write ./-",
            ));
        }
        RecordingFiles::refuse_existing(&self.output, bounds)?;
        let mut client = self.control.client().record(&self.volume)?;
        let stop = caught_signals().context("cannot catch signals")?;
        let unread = Arc::clone(&stop);
        let _output = OutputWatch::start(move || unread.store(true, Ordering::Relaxed))
            .context("cannot start a thread")?;
        let title = client.title();
        let header = RecordingHeader {
            volume: title.volume.clone(),
            volume_bytes: title.volume_bytes,
            started: title.started_nanos,
            part: 0,
        };
        let files = RecordingFiles::create(&self.output, bounds, header)?;
        if std::io::stderr().is_terminal() {
            notice(&format!("{} is recorded to {}; Ctrl-C ends it", self.volume, self.output.display()));
        }
        let mut session = Session::new(files, self.span);
        let began = Instant::now();
        let end = session.run(&mut client, &stop);
        drop(client);
        self.tell(&session, &end, began.elapsed(), out)?;
        end.into_result()
    }

    fn tell(&self, session: &Session, end: &End, took: Duration, out: &mut dyn Write) -> Result<(), Failure> {
        let (count, lost, bytes) = (session.record_count(), session.lost(), session.bytes());
        let unwritten = session.unwritten();
        if self.json {
            let value = json!({
                "volume": self.volume,
                "file": self.output,
                "records": count,
                "lost_records": lost + unwritten,
                "bytes": bytes,
                "seconds": took.as_secs_f64(),
                "end": end.word(),
            });
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?);
        }
        let name = self.output.display();
        writeln!(
            out,
            "{}: {} records in {}, {} in {name}; {}",
            self.volume,
            show_count(count),
            show_duration(took),
            show_bytes(bytes),
            end.sentence()
        )?;
        if unwritten > 0 {
            writeln!(out, "{} more arrived, and could not be written", show_count(unwritten))?;
        }
        if lost > 0 {
            writeln!(
                out,
                "{} records were lost: they arrived faster than they could be written",
                show_count(lost)
            )?;
        }
        Ok(())
    }
}

fn caught_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal ends the command at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn parse_size_max(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    if size.bytes() < SIZE_MIN {
        return Err(format!("a file of {text} is too small; {} is the least", show_bytes(SIZE_MIN)));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_room_for_some_blocks() {
        assert!(parse_size_max("1K").unwrap_err().contains("256 KiB is the least"));
        assert_eq!(parse_size_max("256K").unwrap().bytes(), SIZE_MIN);
    }
}
