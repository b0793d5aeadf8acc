//! The writes of a run: when each was issued and acknowledged, and which of them flushes have covered.

use std::collections::BTreeSet;

use kickcache_engine::request::Durability;
use kickcache_engine::units::VolumeId;

use crate::content::{Version, ZERO};

/// A point in the order of all events that clients see; later events have larger ticks.
pub type Tick = u64;
/// The tick of an event that has not happened.
pub const NEVER: Tick = u64::MAX;

/// A write of a client, of data or zeroes; versions 0 and 1 have records as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteRecord {
    pub volume: VolumeId,
    pub issued: Tick,
    /// When the request was acknowledged; [`NEVER`] if it was not, or failed.
    pub acknowledged: Tick,
    pub durable: bool,
}

#[derive(Clone, Debug)]
pub struct Book {
    writes: Vec<WriteRecord>,
    /// By volume: writes acknowledged before this tick are durable, except within the spans of `doomed`.
    flushed_through: Vec<Tick>,
    /// By volume: spans of ticks; a volatile write that was acknowledged within a span may be lost, because a flush
    /// failed.
    doomed: Vec<Vec<(Tick, Tick)>>,
    /// Start ticks of the requests in flight.
    in_flight: BTreeSet<Tick>,
    tick: Tick,
    strict: bool,
}

/// The version of the origins' content before the run.
pub const INITIAL: Version = 1;

impl Book {
    pub fn new(volumes: usize) -> Book {
        let before = WriteRecord { volume: VolumeId::new(0), issued: 0, acknowledged: 0, durable: true };
        Book {
            writes: vec![before; 2],
            flushed_through: vec![0; volumes],
            doomed: vec![Vec::new(); volumes],
            in_flight: BTreeSet::new(),
            tick: 1,
            strict: true,
        }
    }

    /// From here on, a read of an unacknowledged write does not prove that the write took effect.
    pub fn be_lenient(&mut self) {
        self.strict = false;
    }

    /// Whether a read of an unacknowledged write proves that the write took effect.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    pub fn next_tick(&mut self) -> Tick {
        self.tick += 1;
        self.tick
    }

    pub fn start(&mut self) -> Tick {
        let tick = self.next_tick();
        self.in_flight.insert(tick);
        tick
    }

    pub fn end(&mut self, started: Tick) -> Tick {
        self.in_flight.remove(&started);
        self.next_tick()
    }

    /// No request in flight started before this tick.
    pub fn oldest_start(&self) -> Tick {
        self.in_flight.first().copied().unwrap_or(self.tick)
    }

    pub fn drop_in_flight(&mut self) {
        self.in_flight.clear();
    }

    pub fn add(&mut self, volume: VolumeId, issued: Tick) -> Version {
        self.writes.push(WriteRecord { volume, issued, acknowledged: NEVER, durable: false });
        self.writes.len() as u64 - 1
    }

    pub fn acknowledge(&mut self, version: Version, at: Tick, durability: Durability) {
        let record = &mut self.writes[usize::try_from(version).expect("a version of ours")];
        record.acknowledged = at;
        record.durable = durability == Durability::Durable;
    }

    /// The record of a version; `None` if no such write was ever issued.
    pub fn get(&self, version: Version) -> Option<&WriteRecord> {
        self.writes.get(usize::try_from(version).ok()?)
    }

    pub fn is_acknowledged(&self, version: Version) -> bool {
        self.get(version).is_some_and(|record| record.acknowledged != NEVER)
    }

    /// Whether a write certainly survives a power cut.
    pub fn is_durable(&self, version: Version) -> bool {
        self.get(version).is_some_and(|record| {
            record.acknowledged != NEVER
                && (record.durable || self.is_flushed(record.volume, record.acknowledged))
        })
    }

    /// Whether a flush has covered the writes that were acknowledged at a tick, and no failed flush may have lost them.
    pub fn is_flushed(&self, volume: VolumeId, acknowledged: Tick) -> bool {
        let at = usize::from(volume.get());
        let is_doomed = |span: &(Tick, Tick)| (span.0..span.1).contains(&acknowledged);
        acknowledged < self.flushed_through[at] && !self.doomed[at].iter().any(is_doomed)
    }

    /// Records a failed flush: later flushes do not cover the writes that were acknowledged up to now and that no flush
    /// has covered.
    pub fn doom(&mut self, volume: VolumeId, now: Tick) {
        let at = usize::from(volume.get());
        self.doomed[at].push((self.flushed_through[at], now));
    }

    pub fn flushed(&mut self, volume: VolumeId, issued: Tick) {
        let through = &mut self.flushed_through[usize::from(volume.get())];
        *through = issued.max(*through);
    }

    pub fn describe(&self, version: Version) -> String {
        match (version, self.get(version)) {
            (ZERO, _) => "zeroes".to_owned(),
            (INITIAL, _) => "the first content".to_owned(),
            (_, None) => format!("version {version}, which no client wrote"),
            (_, Some(record)) => {
                let end = match record.acknowledged {
                    NEVER => "never acknowledged".to_owned(),
                    tick => format!("acknowledged {tick}"),
                };
                let durable = if self.is_durable(version) { ", durable" } else { "" };
                format!("version {version} (issued {}, {end}{durable})", record.issued)
            }
        }
    }
}
