//! Times that run forwards: records out of order are sorted within a window, joined recordings follow each
//! other, and gaps that only a set clock explains are cut.
//!
//! A *stream* is a source of records in the order of their times: a processor of blktrace, a device of the other
//! formats. If the time decreases within a stream by more than [`SLACK`], another recording begins; streams
//! may overlap in any way.

use std::collections::{HashMap, VecDeque};

use kickcache_engine::time::Duration;

use crate::trace_file::record::Record;

/// Records in memory. If the window is full, its earlier half is returned.
const WINDOW: usize = 1 << 20;
/// Nanoseconds by which a record may precede the latest one of its stream; an earlier record begins another
/// recording.
const SLACK: u64 = 2_000_000_000;
/// After this many records of a stream, a record no later than the first, and earlier than the latest, begins
/// a recording, even within the slack.
const STREAM_RECORDS_MIN: u64 = 32;
/// The longest gap between two records that is not cut, in nanoseconds.
const GAP_MAX: u64 = 7 * NANOS_A_DAY;
const NANOS_A_DAY: u64 = 86_400 * 1_000_000_000;
/// The nanoseconds that a cut gap keeps.
const GAP_LEFT: u64 = 1_000_000_000;
/// A trace has no order if this many recordings or more began by their times alone, with fewer on average than
/// `SHUFFLED_RECORDS` records for each such recording.
const SHUFFLED_RECORDINGS: u64 = 8;
const SHUFFLED_RECORDS: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeRepairs {
    /// Records that followed a later one of the same recording in the file.
    pub sorted: u64,
    /// Places at which another recording begins, because a time was too early.
    pub joined: u64,
    pub gaps: u64,
    /// Time that was cut off the gaps, in all.
    pub gap: Duration,
}

impl TimeRepairs {
    pub fn sentences(&self) -> Vec<String> {
        let counted = |count: u64, one: &str, more: &str| {
            if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
        };
        let mut all = Vec::new();
        if self.sorted > 0 {
            let records = counted(self.sorted, "record was", "records were");
            all.push(format!("{records} out of the order of the times; the trace was sorted"));
        }
        if self.joined > 0 {
            let places = counted(self.joined, "place", "places");
            all.push(format!(
                "times begin again at {places}, where recordings were joined or the clock was set back; each part follows the one before it"
            ));
        }
        let days = self.gap.as_nanos() / NANOS_A_DAY;
        match self.gaps {
            0 => {}
            1 => all.push(format!("a gap of {days} days between two records was cut to a second: the clock was set")),
            gaps => all.push(format!(
                "{gaps} gaps between records, {days} days in all, were cut to a second each: the clock was set"
            )),
        }
        all
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    pub(crate) record: Record,
    pub(crate) lost: u64,
}

struct Entry {
    nanos: u64,
    ordered: Ordered,
}

struct Stream {
    first: u64,
    latest: u64,
    records: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beginning {
    Header,
    Times,
}

#[derive(Default)]
pub(crate) struct TimeOrder {
    entries: Vec<Entry>,
    ready: VecDeque<Ordered>,
    streams: HashMap<u64, Stream>,
    latest: u64,
    has_late_entries: bool,
    is_behind_header: bool,
    /// The time in the file of the last returned record of the current recording.
    left_until: Option<u64>,
    now: Option<u64>,
    records: u64,
    unmarked: u64,
    repairs: TimeRepairs,
}

impl TimeOrder {
    /// # Errors
    /// A sentence, if the times have no order.
    pub(crate) fn push(&mut self, ordered: Ordered, stream: u64) -> Result<(), String> {
        let nanos = ordered.record.at.map_or(self.latest, Duration::as_nanos);
        self.records += 1;
        if let Some(beginning) = self.beginning(nanos, stream) {
            self.begin(beginning)?;
        }
        self.is_behind_header = false;
        let times = self.streams.entry(stream).or_insert(Stream { first: nanos, latest: nanos, records: 0 });
        times.latest = times.latest.max(nanos);
        times.records += 1;
        if self.left_until.is_some_and(|left| nanos < left) {
            return Err(format!(
                "record {} is {} s earlier than others before it, too many to sort them ({}); sort the trace by its times, or merge \
                 the files of a blktrace with `blkparse -i NAME -d FILE`",
                self.records,
                self.latest.saturating_sub(nanos) / 1_000_000_000,
                WINDOW / 2
            ));
        }
        if nanos < self.latest {
            self.repairs.sorted += 1;
            self.has_late_entries = true;
        }
        self.latest = self.latest.max(nanos);
        self.entries.push(Entry { nanos, ordered });
        if self.entries.len() == WINDOW {
            self.leave(WINDOW / 2);
        }
        Ok(())
    }

    /// Adds a header: an earlier time after it begins another recording.
    pub(crate) fn push_header(&mut self) {
        self.is_behind_header = true;
    }

    pub(crate) fn finish(&mut self) {
        self.leave(self.entries.len());
    }

    /// The next record in the order of the times, once that is certain.
    pub(crate) fn pop(&mut self) -> Option<Ordered> {
        self.ready.pop_front()
    }

    pub(crate) fn repairs(&self) -> TimeRepairs {
        self.repairs
    }

    fn beginning(&self, nanos: u64, stream: u64) -> Option<Beginning> {
        if self.is_behind_header && nanos < self.latest {
            return Some(Beginning::Header);
        }
        let times = self.streams.get(&stream)?;
        let is_again = times.records >= STREAM_RECORDS_MIN && nanos <= times.first && nanos < times.latest;
        let is_far_back = nanos.saturating_add(SLACK) < times.latest;
        (is_again || is_far_back).then_some(Beginning::Times)
    }

    fn begin(&mut self, beginning: Beginning) -> Result<(), String> {
        self.finish();
        self.repairs.joined += 1;
        self.unmarked += u64::from(beginning == Beginning::Times);
        if self.unmarked >= SHUFFLED_RECORDINGS && self.records / self.unmarked < SHUFFLED_RECORDS {
            return Err(format!(
                "times go back by more than 2 s {} times in {} records, which is no order; sort the trace by its times",
                self.unmarked, self.records
            ));
        }
        self.streams.clear();
        (self.latest, self.left_until) = (0, None);
        Ok(())
    }

    fn leave(&mut self, count: usize) {
        if std::mem::take(&mut self.has_late_entries) {
            self.entries.sort_by_key(|entry| entry.nanos);
        }
        let mut entries = std::mem::take(&mut self.entries);
        for Entry { nanos, mut ordered } in entries.drain(..count) {
            let now = self.time_of(nanos);
            (self.left_until, self.now) = (Some(nanos), Some(now));
            ordered.record.at = ordered.record.at.map(|_| Duration::from_nanos(now));
            self.ready.push_back(ordered);
        }
        self.entries = entries;
    }

    fn time_of(&mut self, nanos: u64) -> u64 {
        let Some(now) = self.now else { return nanos };
        let step = nanos - self.left_until.unwrap_or(nanos);
        if step <= GAP_MAX {
            return now.saturating_add(step);
        }
        self.repairs.gaps += 1;
        self.repairs.gap = Duration::from_nanos(self.repairs.gap.as_nanos().saturating_add(step - GAP_LEFT));
        now.saturating_add(GAP_LEFT)
    }
}
