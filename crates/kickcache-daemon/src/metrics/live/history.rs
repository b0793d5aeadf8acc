//! Rows of numbers of the last hour, one a second, and of the last week, one in five minutes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time between fine rows, and how many are kept.
pub(super) const FINE_SPAN: Duration = Duration::from_secs(1);
pub(super) const FINE_COUNT: usize = 3_600;
/// Time between coarse rows, and how many are kept.
pub(super) const COARSE_SPAN: Duration = Duration::from_secs(300);
pub(super) const COARSE_COUNT: usize = 2_016;
pub(super) const COLUMN_COUNT: usize = 12;

/// The values of the columns of a volume or a cache device in an interval; an unknown value is NaN.
pub(super) type Row = [f32; COLUMN_COUNT];
pub(super) type Rows = BTreeMap<Subject, Row>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject {
    Volume(String),
    Cache(String),
}

#[derive(Default)]
pub(super) struct Tracks {
    pub(super) fine: Track,
    pub(super) coarse: Track,
}

/// Rows of spans of one length, the oldest first.
#[derive(Default)]
pub(super) struct Track {
    /// When each span ended.
    pub(super) times: VecDeque<u64>,
    /// For each subject, one row for each time.
    pub(super) rows: BTreeMap<Subject, VecDeque<Row>>,
}

impl Tracks {
    pub(super) fn add_fine(&mut self, at: u64, rows: Rows) {
        self.fine.add(at, rows, FINE_COUNT);
    }

    pub(super) fn add_coarse(&mut self, at: u64, rows: Rows) {
        self.coarse.add(at, rows, COARSE_COUNT);
    }
}

impl Track {
    fn add(&mut self, at: u64, mut rows: Rows, count_max: usize) {
        // The times stay in order even if the clock was set back.
        let at = self.times.back().map_or(at, |last| at.max(last + 1));
        self.times.push_back(at);
        for subject in
            rows.keys().filter(|subject| !self.rows.contains_key(subject)).cloned().collect::<Vec<_>>()
        {
            self.rows.insert(subject, vec![[f32::NAN; COLUMN_COUNT]; self.times.len() - 1].into());
        }
        for (subject, kept) in &mut self.rows {
            kept.push_back(rows.remove(subject).unwrap_or([f32::NAN; COLUMN_COUNT]));
        }
        if self.times.len() > count_max {
            self.times.pop_front();
            for kept in self.rows.values_mut() {
                kept.pop_front();
            }
        }
        self.rows.retain(|_, kept| kept.iter().rev().any(|row| row.iter().any(|number| !number.is_nan())));
    }

    /// The number of the first row after a second.
    pub(super) fn after(&self, since: u64) -> usize {
        self.times.partition_point(|time| *time <= since)
    }
}
