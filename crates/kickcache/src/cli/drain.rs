//! `kickcache drain`: has all dirty blocks of a volume written back, by its daemon or without one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::builder::{OsStringValueParser as OriginParser, TypedValueParser as _};
use kickcache_command::bar::bar;
use kickcache_command::closed_output::OutputWatch;
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::notice::notice;
use kickcache_command::options::{ControlOption, StateOption};
use kickcache_daemon::conditions::damage;
use kickcache_daemon::conditions::unlinked::unlinked_origin;
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::report::{CacheReport, Report, VolumeReport};
use kickcache_daemon::control::wire::Request;
use kickcache_daemon::devices::offline::drain::{DrainOutcome, DrainPlan, Drained, OlderBlocks, drain};
use kickcache_daemon::devices::offline::foreign_device::with_notes;
use kickcache_daemon::plan::origin_claims::OriginClaims;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::plan::origin_timeout::OriginTimeout;
use kickcache_units::printable::printable_line;
use kickcache_units::{counted, show_bytes};

const BAR: &str = "draining {bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}";

const CONTINUES: &str = "the daemon continues the drain";

const EXAMPLES: &str = "\
Examples:
  kickcache drain vm1                   start the drain and return at once
  kickcache drain vm1 --wait            return when the origin has all data and has flushed it
  kickcache drain --cache /var/cache/vm1.img
                                        without a daemon
  kickcache drain vm1 --cache /dev/nvme0n1p4 --origin /dev/sdc --origin-moved
                                        the same, with an origin that has another path";

const ASK_EVERY: Duration = Duration::from_millis(200);
/// The least interval of messages about obstacles; an older error is no obstacle.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Write all dirty blocks of a volume back to its origin
///
/// Sends the request to the daemon that serves the volume. With --cache, the command itself writes back from
/// a cache device that no daemon serves, and returns when the origin has all data and has flushed it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DrainArgs {
    /// Name of the volume; optional with --cache, if there is only one
    #[arg(required_unless_present = "cache")]
    volume: Option<String>,
    /// Wait until no block is dirty and the origin has flushed
    ///
    /// Client writes may continue: they pause for a moment at the end.
    #[arg(long, conflicts_with = "cache")]
    wait: bool,
    /// Cache device that no daemon serves
    #[arg(long, value_name = "PATH")]
    cache: Option<PathBuf>,
    /// Origin of the volume [default: the origin recorded on the cache device]
    #[arg(long, value_name = "PATH|URI", requires = "cache", value_parser = OriginParser::new().try_map(|text| OriginSource::parse(&text)))]
    origin: Option<OriginSource>,
    /// How long requests wait for a lost NBD server before they fail: 1s to 24h [default: 2m]
    #[arg(long, value_name = "TIME", requires = "cache", allow_hyphen_values = true)]
    origin_timeout: Option<OriginTimeout>,
    /// Accept an origin at another path, or another file at its path, with the content recorded on the cache
    /// device
    #[arg(long, requires = "cache")]
    origin_moved: bool,
    /// Confirm by its path that an origin without an identity of its own is the disk of the last start
    #[arg(long, value_name = "PATH", requires = "cache", conflicts_with = "origin")]
    origin_is: Option<PathBuf>,
    /// Accept an origin that was extended while no daemon served it
    #[arg(long, requires = "cache")]
    origin_grown: bool,
    /// Accept an origin that contains a kickcache cache device
    #[arg(long, requires = "origin")]
    force_origin: bool,
    /// Accept an origin that cannot be flushed: a power failure may lose blocks written back
    #[arg(long, requires = "origin")]
    origin_no_flush: bool,
    /// Write back although the origin may have newer data
    ///
    /// For a cache device that is out of service, is an older copy, has no record in the state directory, or without which
    /// the origin was served since. In the last two cases the volume is detached afterwards: its clean blocks may be
    /// older than the origin.
    #[arg(long, requires = "cache")]
    accept_older: bool,
    #[command(flatten)]
    state: StateOption,
    #[command(flatten)]
    control: ControlOption,
}

impl DrainArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        match (&self.cache, &self.volume) {
            (Some(cache), _) => self.drain_offline(cache, out),
            (None, Some(volume)) => self.ask_daemon(volume, out),
            (None, None) => {
                Err(Failure::usage("no volume and no cache device given; name a volume, or use --cache"))
            }
        }
    }

    fn drain_offline(&self, cache: &Path, out: &mut dyn Write) -> Result<(), Failure> {
        let state = self.state.place();
        let confirmed = self.origin_is.as_deref().map(OriginSource::from);
        let plan = DrainPlan {
            state: &state,
            older: if self.accept_older { OlderBlocks::Accept } else { OlderBlocks::Refuse },
            cache,
            volume: self.volume.as_deref(),
            origin: self.origin.as_ref().or(confirmed.as_ref()),
            origin_timeout: self.origin_timeout,
            claims: OriginClaims {
                moved: self.origin_moved || confirmed.is_some(),
                grown: self.origin_grown,
                flushless: self.origin_no_flush,
                forced: self.force_origin,
                ..OriginClaims::default()
            },
        };
        let bar = bar(1, BAR);
        let drained = drain(plan, &mut |done, whole| {
            bar.set_length(whole);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let done = drained.map_err(|error| with_notes(error, cache, &state))?;
        Ok(writeln!(out, "{}", sentence(&done, cache))?)
    }

    fn ask_daemon(&self, volume: &str, out: &mut dyn Write) -> Result<(), Failure> {
        // A closed output ends this command; the daemon continues the drain.
        let watch = self.wait.then(|| OutputWatch::start(|| Exit::Interrupted.end_process()));
        let _output = watch.transpose().context("cannot start a thread")?;
        let client = self.control.client();
        let client = if self.wait { client.patient() } else { client };
        // The reply to the drain request has the reason why a volume is not served.
        let mut drains = find(&client.status()?, volume).map_or(0, |found| found.volume.counters.drains);
        let request = Request::Drain { volume: volume.to_owned() };
        let () = client.request(&request)?;
        let client = if self.wait { client.waiting() } else { client };
        let mut report = client.status()?;
        let mut left = left(volume, &report)?;
        let begun = writeln!(out, "{volume}: {} to write back", show_bytes(left));
        // A closed pipe would end the command with success.
        begun.map_err(|error| Failure { exit: Exit::Interrupted, error: anyhow!("{error}; {CONTINUES}") })?;
        let mut obstacles = Obstacles::default();
        let mut has_ended = false;
        while self.wait && (is_draining(volume, &report) || left > 0 && !has_ended) {
            if let Some(line) = obstacles.tell(Instant::now(), volume, &report) {
                notice(&line);
            }
            std::thread::sleep(ASK_EVERY);
            report = client.status()?;
            left = self::left(volume, &report)?;
            has_ended = self::drains(volume, &report)? > drains;
            if !has_ended && (left == 0) == is_draining(volume, &report) {
                // Discards of the dirty blocks do not end a drain, and a restart of the daemon or of its
                // engine cancels it.
                drains = self::drains(volume, &report)?;
                let () = client.request(&request)?;
            }
        }
        match unlinked_origin(&report, volume) {
            Some(removed) if self.wait => Err(anyhow!("{volume}: drained, but {removed}").into()),
            None if self.wait => Ok(writeln!(out, "{volume}: drained; the origin has all data")?),
            Some(_) | None => Ok(()),
        }
    }
}

fn sentence(done: &Drained, cache: &Path) -> String {
    let (name, origin) = (printable_line(&done.name), done.origin.to_string());
    let (origin, cache) = (printable_line(&origin), cache.display());
    let alone = match done.overtaken_bytes {
        0 => String::new(),
        some => format!(" ({} left alone: they were written on the origin since)", show_bytes(some)),
    };
    let written = |bytes| {
        format!("{name}: drained; {} written back{alone}, and {origin} has all data", show_bytes(bytes))
    };
    match done.outcome {
        DrainOutcome::Nothing => {
            format!("{name}: {cache} has no dirty blocks that {origin} lacks; no data was written or changed")
        }
        DrainOutcome::Written(bytes) => written(bytes),
        DrainOutcome::Removed { bytes, clean_blocks } => format!(
            "{}\n{name} was removed from {cache}, because its clean blocks there ({}) may be older than \
             the data of {origin}; serve it as before to cache it again",
            written(bytes),
            counted(clean_blocks, "block")
        ),
    }
}

/// Messages about the obstacles of a drain.
#[derive(Default)]
pub(super) struct Obstacles {
    said: Option<Instant>,
}

impl Obstacles {
    /// The message that is due: a device failed in the last moments, or does not respond.
    pub(super) fn tell(&mut self, now: Instant, name: &str, report: &Report) -> Option<String> {
        if self.said.is_some_and(|said| now.duration_since(said) < SAY_EVERY) {
            return None;
        }
        let is_here = |cache: &&CacheReport| cache.volumes.iter().any(|volume| volume.name == name);
        let cache = report.caches.iter().find(is_here)?;
        let volume = cache.volumes.iter().find(|volume| volume.name == name)?;
        let why = volume.origin_away_why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let away =
            volume.origin_away_seconds.map(|seconds| format!("its server was lost {seconds:.0} s ago{why}"));
        let origin =
            away.or_else(|| obstacle(volume.origin_silent_seconds, volume.origin_last_error.as_ref()));
        let device = obstacle(cache.silent_seconds, cache.last_error.as_ref());
        let what = match (origin, device) {
            (Some(what), _) => format!("its origin {}: {what}", volume.origin),
            (None, Some(what)) => format!("the cache device {}: {what}", cache.device),
            (None, None) => return None,
        };
        let left = volume.not_clean_bytes();
        if left == 0 {
            return None;
        }
        self.said = Some(now);
        let left = show_bytes(left);
        Some(format!("{name}: {what}; {left} still to write back, tried again until it works"))
    }
}

fn obstacle(silent: Option<f64>, error: Option<&LastError>) -> Option<String> {
    if let Some(seconds) = silent {
        return Some(format!("it has completed no operation for {seconds:.0} s"));
    }
    let error = error.filter(|error| error.seconds_ago < SAY_EVERY.as_secs_f64())?;
    Some(error.show())
}

/// Bytes that are dirty, or written back and not flushed. Fails if all of these bytes are damaged.
pub(super) fn left(name: &str, report: &Report) -> anyhow::Result<u64> {
    let VolumeDevice { cache, volume } = served(name, report)?;
    let left = volume.not_clean_bytes();
    if left > 0 && left == volume.damaged_bytes {
        let what = damage(volume, &cache.device);
        return Err(anyhow!("{name}: some blocks cannot be written back: {what}"));
    }
    Ok(left)
}

fn drains(name: &str, report: &Report) -> anyhow::Result<u64> {
    Ok(served(name, report)?.volume.counters.drains)
}

/// Whether the volume is being drained.
pub(super) fn is_draining(name: &str, report: &Report) -> bool {
    find(report, name).is_some_and(|found| found.volume.draining)
}

fn served<'a>(name: &str, report: &'a Report) -> anyhow::Result<VolumeDevice<'a>> {
    find(report, name).ok_or_else(|| anyhow!("the volume `{name}` is not served any longer"))
}

struct VolumeDevice<'a> {
    cache: &'a CacheReport,
    volume: &'a VolumeReport,
}

fn find<'a>(report: &'a Report, name: &str) -> Option<VolumeDevice<'a>> {
    let volumes = report
        .caches
        .iter()
        .flat_map(|cache| cache.volumes.iter().map(move |volume| VolumeDevice { cache, volume }));
    volumes.into_iter().find(|found| found.volume.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use kickcache_daemon::control::server::ControlServer;
    use kickcache_daemon::control::wire::Reply;
    use kickcache_daemon::control::{Answer, ControlError, RequestHandler};

    use super::*;
    use crate::cli::status::tests::report;

    /// What the volume `vm1` has left in bytes, whether it is being drained, and its completed drains.
    type Look = (u64, bool, u64);

    /// A daemon with these states of `vm1`, one for each look, and the number of drains that were requested of it.
    struct Daemon {
        looks: Mutex<VecDeque<Look>>,
        drains: Mutex<usize>,
    }

    impl RequestHandler for Daemon {
        fn handle(&self, request: &Request) -> Result<Answer, ControlError> {
            let mut looks = self.looks.lock().unwrap();
            let (dirty, is_draining, drains) = looks[0];
            match request {
                Request::Status {} => {
                    if looks.len() > 1 {
                        looks.pop_front();
                    }
                    let mut report = report(0);
                    let volume = &mut report.caches[0].volumes[0];
                    (volume.dirty_bytes, volume.draining, volume.counters.drains) =
                        (dirty, is_draining, drains);
                    (volume.unflushed_bytes, volume.damaged_bytes) = (0, 0);
                    Ok(Reply::Status(Box::new(report)).into())
                }
                Request::Drain { volume } if volume == "vm1" => {
                    *self.drains.lock().unwrap() += 1;
                    Ok(Reply::Done.into())
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The output of `drain vm1 --wait` at a daemon with these states, the states that it has not seen, and the
    /// drains that it has requested.
    fn drained(looks: &[Look]) -> (String, usize, usize) {
        let directory = tempfile::tempdir().unwrap();
        let control = directory.path().join("control");
        let daemon = Daemon { looks: Mutex::new(looks.iter().copied().collect()), drains: Mutex::new(0) };
        let daemon = Arc::new(daemon);
        let served = Arc::clone(&daemon);
        let _server = ControlServer::start(&control, served).unwrap();
        let arguments = DrainArgs {
            volume: Some("vm1".into()),
            wait: true,
            cache: None,
            origin: None,
            origin_timeout: None,
            origin_moved: false,
            origin_is: None,
            origin_grown: false,
            force_origin: false,
            origin_no_flush: false,
            accept_older: false,
            state: StateOption { state: None },
            control: ControlOption { control: Some(control) },
        };
        let mut out = Vec::new();
        arguments.run(&mut out).map_err(|failure| failure.error).unwrap();
        let unseen = daemon.looks.lock().unwrap().len() - 1;
        (String::from_utf8(out).unwrap(), unseen, *daemon.drains.lock().unwrap())
    }

    #[test]
    fn a_cancelled_drain_is_requested_again() {
        let cases: [(&[Look], usize); 5] = [
            // The volume is clean at once, or after a while.
            (&[(4096, false, 7), (0, false, 8)], 1),
            (&[(4096, false, 7), (4096, true, 7), (0, false, 8)], 1),
            // Blocks are written back, but their records are not durable yet.
            (&[(4096, false, 7), (0, true, 7), (0, false, 8)], 1),
            // Discards of the dirty blocks do not end a drain.
            (&[(4096, false, 7), (4096, true, 7), (0, true, 7), (0, false, 8)], 2),
            // A restart of the engine cancels a drain.
            (&[(4096, false, 7), (4096, true, 7), (4096, false, 7), (4096, true, 7), (0, false, 8)], 2),
        ];
        for (looks, drains) in cases {
            let (said, unseen, asked) = drained(looks);
            assert!(said.ends_with("vm1: drained; the origin has all data\n"), "{said}");
            assert_eq!((unseen, asked), (0, drains), "{looks:?}");
        }
    }
}
