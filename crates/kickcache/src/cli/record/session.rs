//! A recording that runs: parcels from the daemon become blocks of a file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kickcache_daemon::control::recording_client::RecordingClient;
use kickcache_daemon::recording::access::{AccessKind, RecordedAccess, RecordingEntry};
use kickcache_daemon::recording::parcel::{More, Parcel};
use kickcache_engine::time::Duration as Span;
use kickcache_engine::units::ByteExtent;
use kickcache_model::trace_file::{Record, RecordingEncoder};
use kickcache_model::workload::Kind;
use kickcache_units::{show_bytes, show_count};

use crate::cli::record::end::End;
use crate::cli::record::files::RecordingFiles;

const TICK: Duration = Duration::from_millis(100);
/// The interval at which gathered records are written even if they do not fill a block.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// The longest silence of the daemon after the end was requested.
const GOODBYE_MAX: Duration = Duration::from_millis(600);
/// Bytes of the longest access that is one record.
const PIECE_BYTES: u64 = 1 << 30;

pub(crate) struct Session {
    files: RecordingFiles,
    encoder: RecordingEncoder,
    /// Records in written blocks.
    record_count: u64,
    gathered: u64,
    /// Records that arrived and were not written; 0 if the recording ended with [`End::Full`].
    unwritten: u64,
    /// Lost records by the daemon's count.
    lost: u64,
    told: u64,
    until: Option<Instant>,
    written: Instant,
    bar: ProgressBar,
}

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
            gathered: 0,
            unwritten: 0,
            lost: 0,
            told: 0,
            until: span.map(|span| now + span),
            written: now,
            bar: bar(span),
        }
    }

    pub(crate) fn record_count(&self) -> u64 {
        self.record_count
    }

    /// 0 if the recording ended with [`End::Full`].
    pub(crate) fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// By the daemon's count.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Headers and removed files included.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    pub(crate) fn run(&mut self, client: &mut RecordingClient, stop: &AtomicBool) -> End {
        let end = self.follow(client, stop);
        self.bar.finish_and_clear();
        self.finish(end)
    }

    /// Writes the remaining records, unless a full file, a full disk or a failed write has ended the
    /// recording.
    fn finish(&mut self, end: End) -> End {
        let end = match end {
            // Behind a missing block, later blocks must not be written.
            End::Full | End::DiskFull { .. } | End::Failed(_) => end,
            End::Asked | End::Time | End::Stopped => self.write_rest().err().unwrap_or(end),
            End::Silent | End::Gone(_) => {
                let _ = self.write_rest();
                end
            }
        };
        self.unwritten += std::mem::take(&mut self.gathered);
        if matches!(end, End::Full) {
            self.unwritten = 0;
        }
        end
    }

    fn write_rest(&mut self) -> Result<(), End> {
        let block = self.encoder.lose(self.lost.saturating_sub(self.told));
        self.put(block)?;
        let block = self.encoder.finish();
        self.put(block)
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
                    return End::Silent;
                }
                (None, None) | (Some(_), _) => {}
            }
            match client.next(TICK) {
                Ok(None) => {}
                Ok(Some(parcel)) => {
                    if let Some(Ending { until, .. }) = &mut ending {
                        *until = Instant::now() + GOODBYE_MAX;
                    }
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
        self.lost = parcel.lost;
        let mut rest = parcel.noted.iter();
        while let Some(noted) = rest.next() {
            let taken = match noted {
                RecordingEntry::Gap(count) => {
                    self.told += count;
                    let block = self.encoder.lose(*count);
                    self.put(block)
                }
                RecordingEntry::Access(access) => self.take_access(access),
            };
            if taken.is_err() {
                self.unwritten +=
                    rest.filter(|noted| matches!(noted, RecordingEntry::Access(_))).count() as u64;
                return taken;
            }
        }
        Ok(())
    }

    fn take_access(&mut self, access: &RecordedAccess) -> Result<(), End> {
        let mut rest = access.extent;
        loop {
            let length = rest.length.min(PIECE_BYTES);
            let block = self.encoder.push(&record(access, ByteExtent { start: rest.start, length }));
            self.gathered += 1;
            self.put(block)?;
            rest = ByteExtent { start: rest.start + length, length: rest.length - length };
            if rest.length == 0 {
                return Ok(());
            }
        }
    }

    fn put(&mut self, block: Option<Vec<u8>>) -> Result<(), End> {
        let Some(block) = block else { return Ok(()) };
        let count = std::mem::take(&mut self.gathered);
        let written = self.files.write(&block);
        *(if written.is_ok() { &mut self.record_count } else { &mut self.unwritten }) += count;
        written
    }

    /// Every [`WRITE_EVERY`], writes the gathered records, so that little is lost if this command is killed.
    fn write_now_and_then(&mut self, now: Instant) -> Result<(), End> {
        if now.duration_since(self.written) >= WRITE_EVERY {
            self.written = now;
            let block = self.encoder.finish();
            self.put(block)?;
        }
        self.bar.set_position(self.bar.elapsed().as_secs());
        let (count, bytes) = (show_count(self.record_count + self.gathered), show_bytes(self.files.bytes()));
        let lost = if self.lost > 0 { format!(", {} lost", show_count(self.lost)) } else { String::new() };
        self.bar.set_message(format!("{count} records, {bytes}{lost}"));
        Ok(())
    }
}

fn record(access: &RecordedAccess, extent: ByteExtent) -> Record {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use kickcache_engine::request::Durability;
    use kickcache_model::trace_file::{RecordingHeader, TraceFile};

    use super::*;
    use crate::cli::record::files::Bounds;

    fn session(folder: &Path, size_max: u64) -> Session {
        let bounds = Bounds { size_max, file_count: 1 };
        let files = RecordingFiles::create(&folder.join("r"), bounds, RecordingHeader::default());
        Session::new(files.unwrap(), None)
    }

    fn parcel(count: u64) -> Parcel {
        let access = |at: u64| {
            let extent = ByteExtent { start: at.wrapping_mul(0x9e37_79b9) % (1 << 40) * 4096, length: 4096 };
            let (kind, durability) = (AccessKind::Read, Durability::Volatile);
            RecordingEntry::Access(RecordedAccess { at: at * 1_000_003, kind, durability, extent })
        };
        Parcel { lost: 0, more: More::Yes, noted: (0..count).map(access).collect() }
    }

    fn in_file(folder: &Path) -> u64 {
        let trace = TraceFile::open(&folder.join("r"), None).unwrap();
        trace.map(Result::unwrap).count() as u64
    }

    #[test]
    fn records_that_a_full_disk_refused_are_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), 1 << 30);
        session.take(&parcel(100_000)).unwrap();
        let written = session.record_count();
        assert!(written > 0 && written < 100_000 && written == in_file(folder.path()), "{written}");
        session.files.fill_disk();
        assert!(matches!(session.take(&parcel(100_000)), Err(End::DiskFull { .. })));
        let end = session.finish(End::DiskFull { free: 0 });
        assert!(matches!(end, End::DiskFull { .. }));
        assert_eq!((session.record_count(), session.unwritten()), (written, 200_000 - written));
        assert_eq!(in_file(folder.path()), written);
    }

    #[test]
    fn a_refused_last_block_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), 1 << 30);
        session.take(&parcel(10)).unwrap();
        session.files.fill_disk();
        assert!(matches!(session.finish(End::Asked), End::DiskFull { .. }));
        assert_eq!((session.record_count(), session.unwritten()), (0, 10));
    }

    #[test]
    fn a_full_recording_counts_the_records_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), 300 << 10);
        let parcel = parcel(100_000);
        let end = (0..100).find_map(|_| session.take(&parcel).err());
        assert!(matches!(end, Some(End::Full)));
        assert!(matches!(session.finish(End::Full), End::Full));
        assert!(session.record_count() > 0, "some blocks fit");
        assert_eq!((session.record_count(), session.unwritten()), (in_file(folder.path()), 0));
    }
}
