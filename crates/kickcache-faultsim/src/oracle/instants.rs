//! The states that volumes had at the instants of a run: decides whether blocks have the content of one instant.

use std::collections::{BTreeMap, BTreeSet};

use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

use crate::content::{Block, UNIT_SIZE, Version, ZERO};
use crate::oracle::book::{Book, NEVER, Tick};
use crate::oracle::write_content::WriteContent;

/// A write of a client that covers a part of a block, or all of it.
#[derive(Clone, Copy, Debug)]
struct PlacedWrite {
    version: Version,
    extent: ByteExtent,
    content: WriteContent,
}

/// A stretch of a volume that each of its writes covers.
struct Place<'a> {
    writes: Vec<&'a PlacedWrite>,
    /// The version before the run.
    first: Version,
}

/// The writes of a run, by place, and the times of its ticks.
#[derive(Clone, Debug, Default)]
pub struct Instants {
    /// By volume and block, in the order of issue.
    writes: BTreeMap<(VolumeId, u64), Vec<PlacedWrite>>,
    /// Ascending.
    ticks: Vec<(Instant, Tick)>,
    /// Acknowledged writes that a power cut may have undone.
    optional: BTreeSet<Version>,
    acknowledged: BTreeSet<Version>,
}

impl Instants {
    pub fn add(&mut self, volume: VolumeId, extent: ByteExtent, version: Version, content: WriteContent) {
        for block in extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE) {
            let write = PlacedWrite { version, extent, content };
            self.writes.entry((volume, block)).or_default().push(write);
        }
    }

    pub fn acknowledge(&mut self, version: Version) {
        self.acknowledged.insert(version);
    }

    /// A request was issued, or ended, at this time.
    pub fn note(&mut self, now: Instant, tick: Tick) {
        self.ticks.push((now, tick));
    }

    /// A power cut: acknowledged writes that are not certainly durable may be undone.
    pub fn cut_power(&mut self, book: &Book) {
        let acknowledged = std::mem::take(&mut self.acknowledged);
        self.optional.extend(acknowledged.into_iter().filter(|version| !book.is_durable(*version)));
    }

    /// Checks that the blocks have the content of one of the points in the order of requests at a time. `find` gives
    /// the block of a volume, and `first` its version before the run.
    ///
    /// # Errors
    /// A sentence, if there is no such point.
    pub fn judge<'a>(
        &self,
        book: &Book,
        at: Instant,
        find: impl Fn(VolumeId, u64) -> &'a Block,
        first: impl Fn(VolumeId, u64) -> Version,
    ) -> Result<(), String> {
        let before = self.ticks.partition_point(|(time, _)| *time < at);
        let after = self.ticks.partition_point(|(time, _)| *time <= at);
        let least = before.checked_sub(1).map_or(0, |last| self.ticks[last].1);
        let points = std::iter::once(least).chain(self.ticks[before..after].iter().map(|(_, tick)| *tick));
        let mut error = String::new();
        for point in points {
            match self.judge_at(book, point, &find, &first) {
                Ok(()) => return Ok(()),
                Err(what) => error = what,
            }
        }
        Err(format!("the origins have no state of the instant {at:?}: {error}"))
    }

    fn judge_at<'a>(
        &self,
        book: &Book,
        point: Tick,
        find: &impl Fn(VolumeId, u64) -> &'a Block,
        first: &impl Fn(VolumeId, u64) -> Version,
    ) -> Result<(), String> {
        for ((volume, block), writes) in &self.writes {
            let first = first(*volume, *block);
            let found = find(*volume, *block);
            let start = block * BLOCK_SIZE;
            let is_split = writes
                .iter()
                .any(|write| write.extent.start > start || write.extent.end() < start + BLOCK_SIZE);
            let whole = found.version(*volume, *block).filter(|_| !is_split);
            let length = if is_split { UNIT_SIZE } else { BLOCK_SIZE };
            for start in (start..start + BLOCK_SIZE).step_by(usize::try_from(length).expect("a block")) {
                let units = start / UNIT_SIZE..(start + length) / UNIT_SIZE;
                let version = whole.map_or_else(|| found.version_of_units(*volume, units), Ok)?;
                let covers = |write: &&PlacedWrite| {
                    write.extent.start <= start && start + length <= write.extent.end()
                };
                let place = Place { writes: writes.iter().filter(covers).collect(), first };
                if !self.allows(book, point, &place, version) {
                    let known: Vec<String> =
                        writes.iter().map(|write| book.describe(write.version)).collect();
                    return Err(format!(
                        "volume {} byte {start:#x} has {} at tick {point}; writes: {}",
                        volume.get(),
                        book.describe(version),
                        known.join(", ")
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether a place may have a version at a point: its write was issued, and no later write that had ended replaced
    /// it.
    fn allows(&self, book: &Book, point: Tick, place: &Place<'_>, version: Version) -> bool {
        let is_replaced = |acknowledged: Tick| {
            acknowledged != NEVER
                && place.writes.iter().any(|write| {
                    let record = book.get(write.version).expect("a version of ours");
                    let is_certain = record.acknowledged <= point && !self.optional.contains(&write.version);
                    is_certain && record.issued > acknowledged
                })
        };
        let is_first = version == place.first && !is_replaced(0);
        is_first
            || place.writes.iter().any(|write| {
                let record = book.get(write.version).expect("a version of ours");
                let content = match write.content {
                    WriteContent::Stamps => write.version,
                    WriteContent::Zeroes => ZERO,
                };
                content == version && record.issued <= point && !is_replaced(record.acknowledged)
            })
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::request::Durability;

    use super::*;

    const VOLUME: VolumeId = VolumeId::new(0);

    /// A run with whole blocks that are written one after the other, a microsecond each.
    #[derive(Default)]
    struct Run {
        instants: Instants,
        now: u64,
    }

    impl Run {
        fn write(&mut self, book: &mut Book, block: u64) -> Version {
            let issued = book.start();
            let version = book.add(VOLUME, issued);
            let extent = ByteExtent { start: block * BLOCK_SIZE, length: BLOCK_SIZE };
            self.instants.add(VOLUME, extent, version, WriteContent::Stamps);
            self.note(issued);
            let ended = book.end(issued);
            book.acknowledge(version, ended, Durability::Volatile);
            self.instants.acknowledge(version);
            self.note(ended);
            version
        }

        fn note(&mut self, tick: Tick) {
            self.now += 1_000;
            self.instants.note(Instant::from_nanos(self.now), tick);
        }

        fn judge(&self, book: &Book, versions: [Version; 2]) -> Vec<u64> {
            let block = |block: u64| match versions[usize::try_from(block).unwrap()] {
                ZERO => Block::Zeroes,
                version => Block::stamp(VOLUME, block, version),
            };
            let blocks = [block(0), block(1)];
            let is_right = |micros: &u64| {
                let at = Instant::from_nanos(micros * 1_000);
                let find = |_, block: u64| &blocks[usize::try_from(block).unwrap()];
                self.instants.judge(book, at, find, |_, _| ZERO).is_ok()
            };
            (0..=self.now / 1_000).filter(is_right).collect()
        }
    }

    #[test]
    fn each_instant_has_its_state() {
        let (mut run, mut book) = (Run::default(), Book::new(1));
        let [one, two, three] = [0, 1, 0].map(|block| run.write(&mut book, block));
        assert_eq!(run.judge(&book, [ZERO, ZERO]), [0, 1, 2]);
        assert_eq!(run.judge(&book, [one, ZERO]), [1, 2, 3, 4]);
        assert_eq!(run.judge(&book, [one, two]), [3, 4, 5, 6]);
        assert_eq!(run.judge(&book, [three, two]), [5, 6]);
        assert_eq!(run.judge(&book, [ZERO, two]), [0; 0], "a mixture");
        assert_eq!(run.judge(&book, [three, ZERO]), [0; 0], "a mixture");
    }

    #[test]
    fn a_power_cut_makes_volatile_writes_optional() {
        let (mut run, mut book) = (Run::default(), Book::new(1));
        let lost = run.write(&mut book, 0);
        run.instants.cut_power(&book);
        let two = run.write(&mut book, 1);
        assert!(run.judge(&book, [ZERO, two]).contains(&4) && run.judge(&book, [lost, two]).contains(&4));
    }
}
