//! A first pass over a trace: its length, the blocks that it accesses, and the placement of its devices on
//! one volume.

use std::collections::HashSet;
use std::path::Path;

use kickcache_curve::hash;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent};

use crate::trace_file::{Format, Record, RecordingHeader, TimeRepairs, TraceError, TraceFile};
use crate::workload::Kind;

/// The most distinct blocks that are counted exactly; a larger number is estimated from a sample.
const SAMPLE_MAX: usize = 1 << 22;
const QUOTED_MAX: usize = 5;
/// Bytes: each device begins at a multiple of this number.
const ALIGNMENT: u64 = 1 << 20;
/// Records that would end behind this address have no place.
const END_MAX: u64 = u64::MAX / ALIGNMENT * ALIGNMENT;

#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    pub format: Format,
    pub reads: u64,
    pub writes: u64,
    /// Flushes, discards and writes of zeroes.
    pub others: u64,
    /// Blocks of 4 KiB that reads and writes touch, each time counted.
    pub touches: u64,
    /// Different blocks that reads and writes touch; above 2^22 an estimate.
    pub footprint: u64,
    /// From the first record to the last; `None` without times, and if several records all have the same
    /// time.
    pub span: Option<Duration>,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub header: Option<Box<RecordingHeader>>,
    pub lost: u64,
    pub repairs: TimeRepairs,
    /// Invalid lines, records and parts of a recording.
    pub bad_lines: u64,
    pub first_bad_lines: Vec<String>,
    pub placement: Placement,
}

/// Puts the devices of a trace one behind the other on one volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    bases: Vec<u64>,
    end: u64,
}

impl Placement {
    fn new(ends: &[u64]) -> Placement {
        let mut placement = Placement::default();
        for end in ends {
            placement.bases.push(placement.end);
            let whole = end.div_ceil(ALIGNMENT) * ALIGNMENT;
            placement.end = placement.end.saturating_add(whole).min(END_MAX);
        }
        placement
    }

    /// Bytes of the volume; 1 MiB if no record has an extent.
    pub fn volume_bytes(&self) -> u64 {
        self.end.max(ALIGNMENT)
    }

    /// The place of a record's extent on the volume, in whole sectors; `None` if it has no place.
    pub fn place(&self, record: &Record) -> Option<ByteExtent> {
        let base = *self.bases.get(usize::try_from(record.device).ok()?)?;
        let start = record.extent.start / 512 * 512;
        let end = record.extent.end().div_ceil(512) * 512;
        let is_inside = base.checked_add(end).is_some_and(|end| end <= self.volume_bytes());
        is_inside.then_some(ByteExtent { start: base + start, length: end - start })
    }
}

/// Counts distinct blocks in bounded memory: blocks with enough zeroes at the end of the hash represent all.
#[derive(Default)]
struct Distinct {
    kept: HashSet<u64>,
    zeroes: u32,
}

impl Distinct {
    fn add(&mut self, block: u64) {
        let hash = hash::hash(block);
        if hash.trailing_zeros() < self.zeroes {
            return;
        }
        self.kept.insert(hash);
        if self.kept.len() > SAMPLE_MAX {
            self.zeroes += 1;
            self.kept.retain(|hash| hash.trailing_zeros() >= self.zeroes);
        }
    }

    fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zeroes
    }
}

/// # Errors
/// If the file cannot be read, or no format fits it.
pub fn survey(path: &Path, format: Option<Format>) -> Result<Survey, TraceError> {
    let mut trace = TraceFile::open(path, format)?;
    let mut pass = Pass::new(trace.format());
    for record in trace.by_ref() {
        match record {
            Ok(record) => pass.add(&record),
            Err(error) if error.is_local() => pass.note_bad(&error),
            Err(error) => return Err(error),
        }
    }
    let header = trace.header().cloned().map(Box::new);
    Ok(Survey { header, lost: trace.lost(), repairs: trace.repairs(), ..pass.finish() })
}

struct Pass {
    survey: Survey,
    blocks: Distinct,
    ends: Vec<u64>,
    times: Option<(Duration, Duration)>,
}

impl Pass {
    fn new(format: Format) -> Pass {
        let survey = Survey {
            format,
            reads: 0,
            writes: 0,
            others: 0,
            touches: 0,
            footprint: 0,
            span: None,
            read_bytes: 0,
            write_bytes: 0,
            header: None,
            lost: 0,
            repairs: TimeRepairs::default(),
            bad_lines: 0,
            first_bad_lines: Vec::new(),
            placement: Placement::default(),
        };
        Pass { survey, blocks: Distinct::default(), ends: Vec::new(), times: None }
    }

    fn add(&mut self, record: &Record) {
        let device = usize::try_from(record.device).expect("at most 2^20 devices");
        if device >= self.ends.len() {
            self.ends.resize(device + 1, 0);
        }
        self.ends[device] = self.ends[device].max(record.extent.end());
        if let Some(at) = record.at {
            let (first, last) = self.times.unwrap_or((at, at));
            self.times = Some((first.min(at), last.max(at)));
        }
        match record.kind {
            Kind::Read => {
                self.survey.reads += 1;
                self.survey.read_bytes = self.survey.read_bytes.saturating_add(record.extent.length);
            }
            Kind::Write => {
                self.survey.writes += 1;
                self.survey.write_bytes = self.survey.write_bytes.saturating_add(record.extent.length);
            }
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => {
                self.survey.others += 1;
                return;
            }
        }
        for block in blocks(record.extent) {
            self.survey.touches += 1;
            self.blocks.add(u64::from(record.device) << 40 | block.get());
        }
    }

    fn note_bad(&mut self, error: &TraceError) {
        self.survey.bad_lines += 1;
        if self.survey.first_bad_lines.len() < QUOTED_MAX {
            self.survey.first_bad_lines.push(error.to_string());
        }
    }

    fn finish(mut self) -> Survey {
        self.survey.footprint = self.blocks.count();
        // If all records have the same time, the trace has no times: fio's version 2 without waits.
        let records = self.survey.reads + self.survey.writes + self.survey.others;
        let has_times = |(first, last): &(Duration, Duration)| first != last || records < 2;
        self.survey.span = (self.times.filter(has_times))
            .map(|(first, last)| Duration::from_nanos(last.as_nanos() - first.as_nanos()));
        self.survey.placement = Placement::new(&self.ends);
        self.survey
    }
}

pub fn blocks(extent: ByteExtent) -> impl ExactSizeIterator<Item = BlockIndex> {
    let whole = extent.widened_to_blocks();
    let count = u32::try_from(whole.length / BLOCK_SIZE).expect("records have at most 1 GiB");
    let first = whole.start / BLOCK_SIZE;
    (0..count).map(move |offset| BlockIndex::new(first + u64::from(offset)))
}
