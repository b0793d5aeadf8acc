//! No read may return data older than an earlier reply.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cells;
use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Spec, VOLUME};
use crate::history::{self, Event, Kind};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};

const CONNECTIONS: u64 = 4;
const WINDOW: usize = 6;
const VOLUME_BYTES: u64 = 64 * MIB;
const TIME: Duration = Duration::from_millis(3000);
/// With fewer writes, the connections continue, up to `TIME_MAX`.
const WRITES_MIN: u64 = 1500;
/// The connections end after this time, even with fewer writes.
const TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
struct Load {
    cell_bytes: u64,
    /// Cells of the hot range at the start of the volume.
    hot_cells: u64,
    /// Of a request.
    run_cells_max: u64,
    /// One request in this many, on average, uses any place.
    cold_one_in: u64,
}

const BLOCKS: Load = Load { cell_bytes: 4096, hot_cells: 48, run_cells_max: 3, cold_one_in: 3 };
const SECTORS: Load = Load { cell_bytes: 512, hot_cells: 96, run_cells_max: 11, cold_one_in: 4 };

#[test]
fn reads_are_never_stale_in_write_back() {
    hammer("write-back", "8M", BLOCKS, 1);
}

#[test]
fn reads_are_never_stale_in_write_through() {
    hammer("write-through", "8M", BLOCKS, 2);
}

#[test]
fn reads_are_never_stale_in_write_around() {
    hammer("write-around", "8M", BLOCKS, 3);
}

#[test]
fn reads_are_never_stale_in_bypass() {
    hammer("bypass", "8M", BLOCKS, 4);
}

#[test]
fn sectors_of_one_block_are_independent_in_write_back() {
    hammer("write-back", "8M", SECTORS, 5);
}

#[test]
fn sectors_of_one_block_are_independent_in_write_through() {
    hammer("write-through", "8M", SECTORS, 6);
}

#[test]
fn sectors_of_one_block_are_independent_in_write_around() {
    hammer("write-around", "8M", SECTORS, 7);
}

fn hammer(mode: &'static str, cache_size: &'static str, load: Load, seed: u64) {
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, mode, cache_size).start();
    let versions = AtomicU64::new(0);
    let clock = Instant::now();
    let events = thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let socket = daemon.spec.socket();
                let (versions, seed) = (&versions, seed * 100 + number);
                scope.spawn(move || Worker::new(&socket, load, clock, versions, seed).run())
            })
            .collect();
        let mut events = Vec::new();
        for worker in workers {
            events.extend(worker.join().expect("a connection saw an error"));
        }
        events
    });
    daemon.stop();
    judge(&events);
}

fn judge(events: &[Event]) {
    let reads = events.iter().filter(|event| event.kind == Kind::Read).count();
    assert!(reads > 1000 && events.len() - reads > 1000, "{reads} of {} events are reads", events.len());
    history::check(events).unwrap();
    // The check must detect a planted stale read.
    let mut events = events.to_vec();
    let hot = |event: &&Event| event.kind == Kind::Write && event.version > 500;
    let write = *events.iter().find(hot).unwrap();
    let start = events.iter().map(|event| event.end).max().unwrap() + 10;
    let later = Event { version: 1 << 40, kind: Kind::Write, start, end: start + 1, ..write };
    events.push(later);
    events.push(Event { kind: Kind::Read, start: start + 2, end: start + 3, ..write });
    history::check(&events).unwrap_err();
}

struct Pending {
    cells: Range<u64>,
    /// `None` for a read.
    version: Option<u64>,
    start: u64,
}

struct Worker<'a> {
    client: Client,
    load: Load,
    clock: Instant,
    versions: &'a AtomicU64,
    rng: Rng,
    pending: HashMap<u64, Pending>,
    events: Vec<Event>,
}

impl<'a> Worker<'a> {
    fn new(socket: &Path, load: Load, clock: Instant, versions: &'a AtomicU64, seed: u64) -> Worker<'a> {
        let client = Client::connect(socket, VOLUME).unwrap();
        let (pending, events) = (HashMap::new(), Vec::new());
        Worker { client, load, clock, versions, rng: Rng::new(seed), pending, events }
    }

    fn run(mut self) -> Vec<Event> {
        while self.is_wanted() {
            while self.pending.len() < WINDOW {
                self.send();
            }
            self.receive();
        }
        while !self.pending.is_empty() {
            self.receive();
        }
        self.events
    }

    fn is_wanted(&self) -> bool {
        let elapsed = self.clock.elapsed();
        elapsed < TIME || (elapsed < TIME_MAX && self.versions.load(Ordering::Relaxed) < WRITES_MIN)
    }

    fn send(&mut self) {
        let cells = self.choose();
        let length = u32::try_from((cells.end - cells.start) * self.load.cell_bytes).unwrap();
        let offset = cells.start * self.load.cell_bytes;
        let version = (self.rng.below(2) == 0).then(|| self.versions.fetch_add(1, Ordering::Relaxed) + 1);
        let data = version.map_or_else(Vec::new, |version| self.content(cells.clone(), version));
        let command = if version.is_some() { WRITE } else { READ };
        let start = self.now();
        let handle = self.client.send(Request { command, flags: 0, offset, length }, &data).unwrap();
        self.pending.insert(handle, Pending { cells, version, start });
    }

    fn choose(&mut self) -> Range<u64> {
        let cold = self.rng.below(self.load.cold_one_in) == 0;
        let bound = if cold { VOLUME_BYTES / self.load.cell_bytes } else { self.load.hot_cells };
        let count = self.rng.between(1, self.load.run_cells_max);
        let start = self.rng.below(bound - count);
        start..start + count
    }

    fn content(&self, cells: Range<u64>, version: u64) -> Vec<u8> {
        let cell_bytes = usize::try_from(self.load.cell_bytes).unwrap();
        let mut data = vec![0; cells.clone().count() * cell_bytes];
        for (number, bytes) in cells.zip(data.chunks_mut(cell_bytes)) {
            cells::fill(bytes, number, version);
        }
        data
    }

    fn receive(&mut self) {
        let reply = self.client.receive().unwrap();
        let end = self.now();
        let Pending { cells, version, start } = self.pending.remove(&reply.handle).expect("a known handle");
        assert_eq!(reply.errno, 0, "error of a request to cells {cells:?}");
        let cell_bytes = usize::try_from(self.load.cell_bytes).unwrap();
        let kind = if version.is_some() { Kind::Write } else { Kind::Read };
        for (at, cell) in cells.enumerate() {
            let seen = || cells::version(&reply.data[at * cell_bytes..(at + 1) * cell_bytes], cell).unwrap();
            self.events.push(Event { cell, version: version.unwrap_or_else(seen), kind, start, end });
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap() + 1
    }
}
