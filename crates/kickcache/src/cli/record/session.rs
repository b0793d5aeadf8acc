//! A recording that runs: parcels from the daemon become blocks of a file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kickcache_daemon::control::recording_client::RecordingClient;
use kickcache_daemon::recording::access::{AccessKind, Noted, NotedAccess};
use kickcache_daemon::recording::parcel::{More, Parcel};
use kickcache_engine::time::Duration as Span;
use kickcache_engine::units::ByteExtent;
use kickcache_model::trace_file::{Record, RecordingEncoder};
use kickcache_model::workload::Kind;
use kickcache_units::{show_bytes, show_count};

use crate::cli::record::end::End;
use crate::cli::record::files::RecordingFiles;

/// How often signals and times are looked at where nothing comes.
const TICK: Duration = Duration::from_millis(200);
/// What a kill of this command costs at most.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// How long a daemon has to send the rest.
const GOODBYE_MAX: Duration = Duration::from_secs(5);
/// The longest access of a trace; longer ones are written as several.
const PIECE_BYTES: u64 = 1 << 30;

/// A recording that runs.
pub(crate) struct Session {
    files: RecordingFiles,
    encoder: RecordingEncoder,
    record_count: u64,
    /// Records that were lost, and those of them that the file says.
    lost: u64,
    told: u64,
    until: Option<Instant>,
    written: Instant,
    bar: ProgressBar,
}

/// An end that the daemon was asked for.
struct Ending {
    end: End,
    until: Instant,
}

impl Session {
    pub(crate) fn new(files: RecordingFiles, span: Option<Duration>) -> Session {
        let now = Instant::now();
        Session {
            files,
            encoder: RecordingEncoder::default(),
            record_count: 0,
            lost: 0,
            told: 0,
            until: span.map(|span| now + span),
            written: now,
            bar: bar(span),
        }
    }

    /// Records that were written.
    pub(crate) fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Records that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes that were written.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Records until something ends it.
    pub(crate) fn run(&mut self, client: &mut RecordingClient, stop: &AtomicBool) -> End {
        let end = self.follow(client, stop);
        let rest = self.encoder.lose(self.lost.saturating_sub(self.told));
        let last =
            rest.into_iter().chain(self.encoder.finish()).try_for_each(|block| self.files.write(&block));
        self.bar.finish_and_clear();
        match (end, last) {
            (End::Asked | End::Time | End::Stopped, Err(worse)) => worse,
            (end, _) => end,
        }
    }

    fn follow(&mut self, client: &mut RecordingClient, stop: &AtomicBool) -> End {
        let mut ending: Option<Ending> = None;
        loop {
            let now = Instant::now();
            let due = if stop.load(Ordering::Relaxed) {
                Some(End::Asked)
            } else {
                self.until.filter(|until| *until <= now).map(|_| End::Time)
            };
            match (&ending, due) {
                (None, Some(end)) => {
                    if let Err(error) = client.finish() {
                        return End::Gone(error);
                    }
                    ending = Some(Ending { end, until: now + GOODBYE_MAX });
                }
                (Some(Ending { until, .. }), _) if *until <= now => {
                    return End::Gone(std::io::ErrorKind::TimedOut.into());
                }
                (None, None) | (Some(_), _) => {}
            }
            match client.next(TICK) {
                Ok(None) => {}
                Ok(Some(parcel)) => {
                    if let Err(end) = self.take(&parcel) {
                        return end;
                    }
                    if parcel.more == More::No {
                        return ending.map_or(End::Stopped, |ending| ending.end);
                    }
                }
                Err(error) => return End::Gone(error),
            }
            if let Err(end) = self.write_now_and_then(now) {
                return end;
            }
        }
    }

    fn take(&mut self, parcel: &Parcel) -> Result<(), End> {
        for noted in &parcel.noted {
            match noted {
                Noted::Gap(count) => {
                    self.told += count;
                    let block = self.encoder.lose(*count);
                    self.put(block)?;
                }
                Noted::Access(access) => self.take_access(access)?,
            }
        }
        self.lost = parcel.lost;
        Ok(())
    }

    fn take_access(&mut self, access: &NotedAccess) -> Result<(), End> {
        let mut rest = access.extent;
        loop {
            let length = rest.length.min(PIECE_BYTES);
            let block = self.encoder.push(&record(access, ByteExtent { start: rest.start, length }));
            self.record_count += 1;
            self.put(block)?;
            rest = ByteExtent { start: rest.start + length, length: rest.length - length };
            if rest.length == 0 {
                return Ok(());
            }
        }
    }

    fn put(&mut self, block: Option<Vec<u8>>) -> Result<(), End> {
        block.map_or(Ok(()), |block| self.files.write(&block))
    }

    /// Writes what was gathered, so that little is lost if this command is killed; shows how far it is.
    fn write_now_and_then(&mut self, now: Instant) -> Result<(), End> {
        if now.duration_since(self.written) >= WRITE_EVERY {
            self.written = now;
            let block = self.encoder.finish();
            self.put(block)?;
        }
        self.bar.set_position(self.bar.elapsed().as_secs());
        let (count, bytes) = (show_count(self.record_count), show_bytes(self.files.bytes()));
        let lost = if self.lost > 0 { format!(", {} lost", show_count(self.lost)) } else { String::new() };
        self.bar.set_message(format!("{count} records, {bytes}{lost}"));
        Ok(())
    }
}

fn record(access: &NotedAccess, extent: ByteExtent) -> Record {
    let kind = match access.kind {
        AccessKind::Read => Kind::Read,
        AccessKind::Write => Kind::Write,
        AccessKind::Flush => Kind::Flush,
        AccessKind::Discard => Kind::Discard,
        AccessKind::WriteZeroes => Kind::WriteZeroes,
    };
    let at = Some(Span::from_nanos(access.at));
    Record { at, device: 0, kind, durability: access.durability, extent }
}

fn bar(span: Option<Duration>) -> ProgressBar {
    let (bar, style) = match span {
        Some(span) => (ProgressBar::new(span.as_secs()), "{bar:30} {elapsed} of {len} s  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}
