//! A trace as a workload: at the times of its recording, faster or slower, or as fast as the devices allow.

use std::path::{Path, PathBuf};

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;

use crate::trace_file::survey::{Placement, Survey};
use crate::trace_file::{Format, Record, TraceError, TraceFile};
use crate::workload::{Access, JobShape, JobStep, Kind, Workload};

/// The most accesses in flight if they are issued at their own times.
const OPEN_DEPTH: u32 = 4_096;
/// The most bytes of an access; a longer one is made in pieces.
const PIECE_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// At their recorded times, divided by a speed: 2 is twice as fast.
    Open {
        /// The speed, above 0.
        speed: f64,
    },
    /// As soon as an earlier access ends, with a fixed number in flight; recorded times are ignored.
    Closed {
        /// Accesses in flight, at least 1.
        depth: u32,
    },
}

/// The accesses of a trace file, in their order, as one job.
pub struct TraceWorkload {
    file: TraceFile,
    placement: Placement,
    pace: Pace,
    jobs: [JobShape; 1],
    next: Option<Record>,
    rest: Option<Access>,
    first: Option<Duration>,
    record_count: u64,
}

impl TraceWorkload {
    /// The workload of a file that was surveyed; lines that the survey called bad are left out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path, survey: &Survey, pace: Pace) -> Result<TraceWorkload, TraceError> {
        let depth = match pace {
            Pace::Open { .. } => OPEN_DEPTH,
            Pace::Closed { depth } => depth.max(1),
        };
        let name = path.file_stem().map_or_else(|| PathBuf::from("trace"), PathBuf::from);
        let jobs = [JobShape { name: name.display().to_string(), depth }];
        let file = TraceFile::open(path, Some(survey.format))?;
        let placement = survey.placement.clone();
        Ok(TraceWorkload {
            file,
            placement,
            pace,
            jobs,
            next: None,
            rest: None,
            first: None,
            record_count: 0,
        })
    }

    pub fn format(&self) -> Format {
        self.file.format()
    }

    /// The number of valid records up to the present place in the file, those without a place on the volume
    /// included.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    fn piece(&mut self, access: Access) -> JobStep {
        let Access { kind, extent } = access;
        let (first, rest) = (extent.length.min(PIECE_BYTES), extent.length.saturating_sub(PIECE_BYTES));
        if rest > 0 {
            let extent = ByteExtent { start: extent.start + first, length: rest };
            self.rest = Some(Access { kind, extent });
        }
        JobStep::Access(Access { kind, extent: ByteExtent { length: first, ..extent } })
    }

    fn peek(&mut self) -> Option<Record> {
        if self.next.is_none() {
            self.next = self.file.by_ref().find_map(Result::ok);
        }
        self.next
    }

    /// When a record is due; at a closed pace, without a time, or out of order, a record is due at once.
    fn due(&mut self, record: &Record) -> Instant {
        let (Pace::Open { speed }, Some(at)) = (self.pace, record.at) else { return Instant::ZERO };
        let first = *self.first.get_or_insert(at);
        let since = at.as_nanos().saturating_sub(first.as_nanos());
        Instant::ZERO.plus(at_speed(Duration::from_nanos(since), speed))
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a microsecond of error in a month is harmless; saturates"
)]
pub fn at_speed(span: Duration, speed: f64) -> Duration {
    Duration::from_nanos((span.as_nanos() as f64 / speed) as u64)
}

impl Workload for TraceWorkload {
    fn jobs(&self) -> &[JobShape] {
        &self.jobs
    }

    fn volume_bytes(&self) -> u64 {
        self.placement.volume_bytes()
    }

    fn next(&mut self, _job: usize, now: Instant) -> JobStep {
        if let Some(rest) = self.rest.take() {
            return self.piece(rest);
        }
        loop {
            let Some(record) = self.peek() else { return JobStep::Finished };
            let due = self.due(&record);
            if due > now {
                return JobStep::WaitUntil(due);
            }
            self.next = None;
            self.record_count += 1;
            if record.kind == Kind::Flush {
                return JobStep::Access(Access { kind: Kind::Flush, extent: record.extent });
            }
            if let Some(extent) = self.placement.place(&record) {
                return self.piece(Access { kind: record.kind, extent });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_file::survey::survey;

    fn open(pace: Pace) -> TraceWorkload {
        open_text(pace, "100,R,0,512\n300,W,4096,512\n")
    }

    fn open_text(pace: Pace, lines: &str) -> TraceWorkload {
        let name = format!("kickcache-trace-{}-{pace:?}-{}.csv", std::process::id(), lines.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("time_us,op,offset,size\n{lines}")).unwrap();
        let survey = survey(&path, None).unwrap();
        let workload = TraceWorkload::open(&path, &survey, pace).unwrap();
        std::fs::remove_file(&path).unwrap();
        workload
    }

    #[test]
    fn an_open_loop_keeps_the_recorded_times() {
        let mut workload = open(Pace::Open { speed: 2.0 });
        assert!(matches!(workload.next(0, Instant::ZERO), JobStep::Access(Access { kind: Kind::Read, .. })));
        let due = Instant::from_nanos(100_000);
        assert_eq!(workload.next(0, Instant::ZERO), JobStep::WaitUntil(due));
        assert!(matches!(workload.next(0, due), JobStep::Access(Access { kind: Kind::Write, .. })));
        assert_eq!(workload.next(0, due), JobStep::Finished);
    }

    #[test]
    fn a_long_access_comes_in_pieces() {
        let mut workload = open_text(Pace::Closed { depth: 1 }, ",R,4096,41943040\n,W,0,512\n");
        let mut lengths = Vec::new();
        while let JobStep::Access(access) = workload.next(0, Instant::ZERO) {
            lengths.push((access.extent.start, access.extent.length));
        }
        let whole = PIECE_BYTES;
        let expected =
            [(4096, whole), (4096 + whole, whole), (4096 + 2 * whole, 41_943_040 - 2 * whole), (0, 512)];
        assert_eq!(lengths, expected);
        assert_eq!(workload.record_count(), 2);
    }

    #[test]
    fn a_closed_loop_never_waits() {
        let mut workload = open(Pace::Closed { depth: 3 });
        assert_eq!(workload.jobs()[0].depth, 3);
        assert!(matches!(workload.next(0, Instant::ZERO), JobStep::Access(_)));
        assert!(matches!(workload.next(0, Instant::ZERO), JobStep::Access(_)));
        assert_eq!(workload.next(0, Instant::ZERO), JobStep::Finished);
    }
}
