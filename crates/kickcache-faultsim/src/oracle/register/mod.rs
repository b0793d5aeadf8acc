//! The values that one place of a volume may hold.
//!
//! Within a life the place is a linearizable register. Since values other than zeroes are unique, pairs of values are
//! enough to judge the history: the reign of value `v` reaches back to the earliest end of an operation on it,
//! `first_end`, or earlier, and up to the latest start of one, `last_start`, or later. So `v` reigned before `w` if
//! `v.first_end < w.last_start`, and the history is wrong exactly if two values each reigned before the other.
//!
//! A crash starts a new history: one of the values that could have survived reigns from the beginning, and the first
//! read determines which.

use kickcache_engine::units::VolumeId;

use crate::content::{Version, ZERO};
use crate::oracle::book::{Book, NEVER, Tick};
use crate::oracle::write_content::WriteContent;

/// A value with a write that started in this life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    version: Version,
    zero: bool,
    first_end: Tick,
    last_start: Tick,
    /// When the write failed, [`NEVER`] if it did not.
    failed: Tick,
}

impl Entry {
    fn value(&self) -> Version {
        if self.zero { ZERO } else { self.version }
    }

    fn issued(&self, book: &Book) -> Tick {
        book.get(self.version).map_or(0, |record| record.issued)
    }

    /// Whether its write was acknowledged, or a read that proves the write ([`Book::is_strict`]) has returned it.
    fn has_ended(&self, book: &Book) -> bool {
        book.is_acknowledged(self.version) || (book.is_strict() && self.first_end != NEVER)
    }

    fn reigned_before(&self, other: &Entry) -> bool {
        self.first_end < other.last_start
    }
}

/// Discards that leave the content undefined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Loose {
    in_flight: u32,
    /// When the last discard ended: [`NEVER`] while one is in flight, the start of the life for discards of earlier
    /// lives.
    ended: Tick,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// The values at the start of this life that a read or a crash may still find; the first read of one removes the
    /// others. After a discard, the value that a read determined, if any.
    base: Vec<Version>,
    /// Latest start of a read that returned the value from the start of this life.
    base_seen: Tick,
    /// Older values that a power cut may bring back until a flush succeeds that was issued in this life.
    volatile: Vec<Version>,
    /// Because of a discard, the value before the writes in `entries` is undefined.
    base_open: bool,
    /// Because of a discard, the older values that a power cut may restore are undefined.
    volatile_open: bool,
    /// When this life started.
    born: Tick,
    entries: Vec<Entry>,
    loose: Option<Loose>,
    /// End of the last discard of this life, or of an earlier discard that a power cut may undo; the start of the life
    /// if a discard left the content undefined.
    discarded: Option<Tick>,
    /// End of the first read after a discard that returned an acknowledged write, 0 without such a read.
    closed: Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletedRead {
    pub version: Version,
    pub start: Tick,
    pub end: Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Unknown,
    SeenOlder,
    Replaced(Version),
    Rewritten(Version),
}

impl Register {
    pub fn new(version: Version) -> Register {
        Register {
            base: vec![version],
            base_seen: 0,
            volatile: Vec::new(),
            base_open: false,
            volatile_open: false,
            born: 0,
            entries: Vec::new(),
            loose: None,
            discarded: None,
            closed: 0,
        }
    }

    pub fn start_write(&mut self, version: Version, content: WriteContent, book: &Book) {
        self.prune(book);
        let issued = book.get(version).map_or(0, |record| record.issued);
        self.entries.push(Entry {
            version,
            zero: content == WriteContent::Zeroes,
            first_end: NEVER,
            last_start: issued,
            failed: NEVER,
        });
    }

    pub fn end_write(&mut self, version: Version, at: Tick) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.version == version) {
            entry.first_end = entry.first_end.min(at);
        }
    }

    pub fn fail_write(&mut self, version: Version, at: Tick) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.version == version) {
            entry.failed = at;
        }
    }

    /// Removes failed writes that had no effect: a read that started later returned a value from before them.
    /// No write is removed after a read of zeroes, after a discard, or if reads prove no writes
    /// ([`Book::is_strict`]).
    fn refute_failed(&mut self, seen: CompletedRead, book: &Book) {
        if !book.is_strict() || seen.version == ZERO || self.loose.is_some() || self.discarded.is_some() {
            return;
        }
        let found = self.entries.iter().find(|entry| entry.value() == seen.version);
        let before = found.map_or(self.born, |entry| entry.first_end);
        self.entries.retain(|entry| {
            let is_over = entry.failed < seen.start.min(book.oldest_start()) && entry.first_end == NEVER;
            !is_over || entry.value() == seen.version || entry.issued(book) < before
        });
    }

    /// Drops values that no read may return and no crash can restore, once the life has six values or more.
    fn prune(&mut self, book: &Book) {
        if self.entries.len() < 6 {
            return;
        }
        let ended = self.loose.map_or(0, |loose| loose.ended).max(self.discarded.unwrap_or(0));
        let settled = |entry: &Entry| {
            book.is_durable(entry.version)
                && entry.first_end < book.oldest_start()
                && entry.issued(book) > ended
        };
        let Some(floor) = self.entries.iter().copied().filter(settled).max_by_key(|entry| entry.last_start)
        else {
            return;
        };
        self.entries.retain(|entry| entry.version == floor.version || !entry.reigned_before(&floor));
        self.base.clear();
        self.volatile.clear();
        (self.base_open, self.volatile_open) = (false, false);
    }

    /// A discard starts: from here on the place may hold any value that it ever held, or zeroes.
    pub fn start_discard(&mut self, book: &Book) {
        let in_flight = self.loose.map_or(0, |loose| loose.in_flight) + 1;
        self.loose = Some(Loose { in_flight, ended: NEVER });
        self.base_open = true;
        self.base.clear();
        self.volatile.clear();
        self.entries.retain(|entry| !book.is_acknowledged(entry.version));
    }

    pub fn end_discard(&mut self, at: Tick) {
        self.discarded = Some(at);
        if let Some(loose) = &mut self.loose {
            loose.in_flight = loose.in_flight.saturating_sub(1);
            if loose.in_flight == 0 {
                loose.ended = at;
            }
        }
    }

    /// # Errors
    /// A sentence, if no order of the operations explains the value.
    pub fn read(&mut self, seen: CompletedRead, book: &Book) -> Result<(), String> {
        let mut matching =
            (0..self.entries.len()).filter(|index| self.entries[*index].value() == seen.version);
        let (first, several) = (matching.next(), matching.next().is_some());
        let in_base = self.base.contains(&seen.version);
        let result = match first {
            None if in_base => self.read_base(seen),
            None => self.read_unknown(seen, book),
            Some(index) if !several && !in_base && !self.may_be_older(seen) => {
                let result = self.read_entry(index, seen, book);
                // A discard that was in flight together with the write or the read may have restored the value.
                if self.loose.is_some() || self.is_beside_discard(seen) {
                    result.or_else(|_| self.read_unknown(seen, book))
                } else {
                    result
                }
            }
            Some(_) => self.read_ambiguous(seen, book),
        };
        if result.is_ok() {
            self.refute_failed(seen, book);
        }
        result.map_err(|wrong| self.blame(seen, wrong, book))
    }

    /// Whether the value may also be the result of a discard.
    fn may_be_older(&self, seen: CompletedRead) -> bool {
        let is_open = self.loose.is_some() || self.base_open;
        seen.version == ZERO && (is_open || self.is_beside_discard(seen))
    }

    /// Whether a read started before the last discard ended, or before the read of `closed` ended.
    fn is_beside_discard(&self, seen: CompletedRead) -> bool {
        self.discarded.is_some_and(|ended| seen.start <= ended.max(self.closed))
    }

    fn read_entry(&mut self, index: usize, seen: CompletedRead, book: &Book) -> Result<(), Wrong> {
        let mut entry = self.entries[index];
        // If a read is in flight when the write fails, it may return a part of the write that the origin stored.
        let was_failing = entry.failed != NEVER && seen.start < entry.failed;
        if book.is_acknowledged(entry.version) || (book.is_strict() && !was_failing) {
            entry.first_end = entry.first_end.min(seen.end);
        }
        entry.last_start = entry.last_start.max(seen.start);
        if entry.first_end < self.base_seen {
            return Err(Wrong::SeenOlder);
        }
        for (other_index, other) in self.entries.iter().enumerate() {
            if other_index != index && entry.reigned_before(other) && other.reigned_before(&entry) {
                return Err(Wrong::Replaced(other.version));
            }
        }
        self.entries[index] = entry;
        if self.loose.is_some_and(|loose| loose.in_flight == 0 && seen.start > loose.ended)
            && book.is_acknowledged(entry.version)
        {
            self.loose = None;
            self.closed = seen.end;
        }
        Ok(())
    }

    fn read_base(&mut self, seen: CompletedRead) -> Result<(), Wrong> {
        let start = self.base_seen.max(seen.start);
        if let Some(newer) = self.entries.iter().find(|entry| entry.first_end < start) {
            return Err(Wrong::Replaced(newer.version));
        }
        self.base.clear();
        self.base.push(seen.version);
        self.base_seen = start;
        Ok(())
    }

    /// Judges the read of a value that only a discard can explain.
    fn read_unknown(&mut self, seen: CompletedRead, book: &Book) -> Result<(), Wrong> {
        let Some(loose) = self.loose else {
            return self.read_open_base(seen, book);
        };
        let settled = loose.in_flight == 0;
        let newer = self
            .entries
            .iter()
            .find(|entry| settled && entry.issued(book) > loose.ended && entry.first_end < seen.start);
        if let Some(newer) = newer {
            return Err(Wrong::Rewritten(newer.version));
        }
        if settled && seen.start > loose.ended && self.entries.is_empty() {
            self.loose = None;
            self.base_open = false;
            self.base.clear();
            self.base.push(seen.version);
            self.base_seen = seen.start;
        }
        Ok(())
    }

    /// A read of an undefined content: no write that was issued after the discard may have ended before the read
    /// started.
    fn read_open_base(&self, seen: CompletedRead, book: &Book) -> Result<(), Wrong> {
        let ended = self.discarded.unwrap_or(0);
        let newer =
            self.entries.iter().find(|entry| entry.issued(book) > ended && entry.first_end < seen.start);
        match newer {
            _ if !self.base_open && !self.is_beside_discard(seen) => Err(Wrong::Unknown),
            Some(newer) => Err(Wrong::Replaced(newer.version)),
            None => Ok(()),
        }
    }

    /// If several writes, the first content of the life or a discard may explain zeroes, a single cause must explain
    /// the read. The read changes no state.
    fn read_ambiguous(&mut self, seen: CompletedRead, book: &Book) -> Result<(), Wrong> {
        let mut result = Err(Wrong::Unknown);
        for index in 0..self.entries.len() {
            if self.entries[index].value() == seen.version {
                result = result.or_else(|_| self.clone().read_entry(index, seen, book));
            }
        }
        if self.base.contains(&seen.version) {
            result = result.or_else(|_| self.clone().read_base(seen));
        }
        if self.may_be_older(seen) {
            result = result.or_else(|_| self.clone().read_unknown(seen, book));
        }
        result
    }

    fn blame(&self, seen: CompletedRead, wrong: Wrong, book: &Book) -> String {
        let why = match wrong {
            Wrong::Unknown => "it is not among the values that may be seen".to_owned(),
            Wrong::SeenOlder => "an older value was seen after it".to_owned(),
            Wrong::Replaced(newer) => format!("{} had replaced it", book.describe(newer)),
            Wrong::Rewritten(newer) => format!("{} was written after the discard", book.describe(newer)),
        };
        let base: Vec<String> = self.base.iter().map(|version| book.describe(*version)).collect();
        let entries: Vec<String> = self.entries.iter().map(|entry| book.describe(entry.version)).collect();
        format!(
            "read {} (started {}, ended {}), but {why}; at the start of this life: [{}], written since: [{}]{}",
            book.describe(seen.version),
            seen.start,
            seen.end,
            base.join(", "),
            entries.join(", "),
            if self.loose.is_some() { ", discarded" } else { "" },
        )
    }

    /// The values of this life that may survive if all writes that satisfy `kept` certainly do, and whether older
    /// values may survive as well.
    fn survivors(&self, kept: impl Fn(&Entry) -> bool) -> (Vec<Version>, bool) {
        let floor: Vec<&Entry> = self.entries.iter().filter(|entry| kept(entry)).collect();
        let beaten = |entry: &Entry| {
            floor.iter().any(|newer| newer.version != entry.version && entry.reigned_before(newer))
        };
        let mut values: Vec<Version> =
            self.entries.iter().filter(|entry| !beaten(entry)).map(Entry::value).collect();
        values.sort_unstable();
        values.dedup();
        (values, floor.is_empty())
    }

    /// The process died: acknowledged writes survive, and values that a read returned too, if reads prove writes
    /// ([`Book::is_strict`]).
    pub fn kill(&mut self, now: Tick, volume: VolumeId, book: &Book) {
        let flushed = book.is_flushed(volume, self.born);
        if self.is_idle() {
            if flushed {
                self.volatile.clear();
            }
            self.volatile.extend_from_slice(&self.base);
            return self.begin(now);
        }
        let (mut base, base_survives) = self.survivors(|entry| entry.has_ended(book));
        let (mut volatile, older_survive) = self.survivors(|entry| book.is_durable(entry.version));
        if base_survives {
            base.extend(&self.base);
        }
        let is_kept =
            |ended: &Tick| self.is_overwritten_since(*ended, |version| book.is_durable(version), book);
        self.discarded = self.discard_at_stake(volume, book).filter(|ended| !is_kept(ended));
        self.volatile_open = self.discarded.is_some()
            || (older_survive && (self.base_open || (!flushed && self.volatile_open)));
        if older_survive {
            volatile.extend(&self.base);
            if !flushed {
                volatile.extend(&self.volatile);
            }
        }
        let kept = |version: Version| book.is_acknowledged(version);
        self.loose = self.loose.filter(|loose| !self.overwritten_since(*loose, kept, book));
        self.restart(now, base, volatile);
    }

    /// The power failed: only durable writes certainly survive.
    pub fn cut_power(&mut self, now: Tick, volume: VolumeId, book: &Book) {
        let flushed = book.is_flushed(volume, self.born);
        if self.is_idle() {
            if !flushed {
                self.base.append(&mut self.volatile);
            }
            self.volatile.clear();
            return self.begin(now);
        }
        let (mut base, older_survive) = self.survivors(|entry| book.is_durable(entry.version));
        if older_survive {
            base.extend(&self.base);
            if !flushed {
                base.extend(&self.volatile);
            }
        }
        let open = older_survive && (self.base_open || (!flushed && self.volatile_open));
        let undone = self.discard_at_stake(volume, book);
        let loose = self.loose.or_else(|| undone.map(|ended| Loose { in_flight: 0, ended }));
        let kept = |version: Version| book.is_durable(version);
        self.loose = loose.filter(|loose| !self.overwritten_since(*loose, kept, book));
        if open {
            self.loose = Some(Loose { in_flight: 0, ended: now });
        }
        self.discarded = None;
        self.volatile_open = false;
        self.restart(now, base, Vec::new());
    }

    /// The last discard, if a power cut may undo it, or may lose a write that followed it or was in flight with it.
    fn discard_at_stake(&self, volume: VolumeId, book: &Book) -> Option<Tick> {
        let is_written_since = |ended: Tick| self.entries.iter().any(|entry| entry.first_end > ended);
        self.discarded.filter(|ended| !book.is_flushed(volume, *ended) || is_written_since(*ended))
    }

    fn overwritten_since(&self, loose: Loose, kept: impl Fn(Version) -> bool, book: &Book) -> bool {
        loose.in_flight == 0 && self.is_overwritten_since(loose.ended, kept, book)
    }

    fn is_overwritten_since(&self, ended: Tick, kept: impl Fn(Version) -> bool, book: &Book) -> bool {
        self.entries.iter().any(|entry| entry.issued(book) > ended && kept(entry.version))
    }

    /// Whether this life has no write and no discard, and no earlier discard left the value undefined.
    fn is_idle(&self) -> bool {
        let is_open = self.base_open || self.volatile_open || self.loose.is_some();
        self.entries.is_empty() && self.discarded.is_none() && !is_open
    }

    fn restart(&mut self, now: Tick, base: Vec<Version>, volatile: Vec<Version>) {
        (self.base, self.volatile) = (base, volatile);
        self.begin(now);
    }

    fn begin(&mut self, now: Tick) {
        // A value in both lists stays in both: a read determines which value of `base` reigns, but does not restrict
        // `volatile`.
        for values in [&mut self.base, &mut self.volatile] {
            values.sort_unstable();
            values.dedup();
        }
        self.base_seen = 0;
        self.born = now;
        self.entries.clear();
        self.closed = 0;
        self.base_open = self.loose.is_some();
        if let Some(loose) = &mut self.loose {
            *loose = Loose { in_flight: 0, ended: now };
            self.discarded = Some(now);
            self.base.clear();
            self.volatile.clear();
        }
    }
}

#[cfg(test)]
mod tests;
