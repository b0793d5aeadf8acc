//! The real daemon with its real driver on disks that remember every write: any power cut is played back, the daemon
//! recovers what is left, and every acknowledged write must be there.
//!
//! `KICKCACHE_IT_CUTS` is the number of power cuts a run (12 without it).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::client::{Client, Request, WRITE};
use crate::daemon::{Daemon, Spec};
use crate::disk::{self, Disk};
use crate::faulty::FaultyDisks;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{cells, faulty_disks, need_kickcache, skip, tools};

const CACHE_BYTES: u64 = 8 * MIB;
const ORIGIN_BYTES: u64 = 16 * MIB;
const CELL: u64 = 4096;
const CELLS: u64 = ORIGIN_BYTES / CELL;
const ROUND_CELLS: u64 = 24;
const TIME: Duration = Duration::from_millis(2500);

/// One version of a cell: where in the log it was sent, and where it was durable.
#[derive(Clone, Copy, Debug)]
struct Sent {
    version: u64,
    at: u64,
    durable: Option<u64>,
}

/// All versions of all cells that were written, in order.
#[derive(Default)]
struct History(BTreeMap<u64, Vec<Sent>>);

impl History {
    /// A flush was acknowledged, and the log had this many records: what was written before is durable from there on.
    fn flushed(&mut self, position: u64) {
        let all = self.0.values_mut().flatten();
        all.filter(|sent| sent.durable.is_none()).for_each(|sent| sent.durable = Some(position));
    }

    /// Checks a cell after a cut. A write that no flush covers may be torn, as on any disk.
    fn check_bytes(&self, cell: u64, bytes: &[u8], until: u64) -> Result<(), String> {
        let is_unflushed =
            |sent: &Sent| sent.at <= until && sent.durable.is_none_or(|durable| durable > until);
        match cells::version(bytes, cell) {
            Ok(version) => self.check(cell, version, until),
            Err(_) if self.0.get(&cell).is_some_and(|sent| sent.iter().any(is_unflushed)) => Ok(()),
            Err(what) => Err(what),
        }
    }

    /// Says how a cell changed that must not.
    fn tell(&self, cell: usize, volumes: [&[u8]; 2], what: &str) -> String {
        let number = cell as u64;
        let [before, after] =
            volumes.map(|volume| cells::version(&volume[cell * 4096..(cell + 1) * 4096], number));
        let sent: Vec<_> = self.0.get(&number).into_iter().flatten().rev().take(4).collect();
        format!("cell {cell} was read as {before:?} and is {after:?} {what}; {sent:?} were sent")
    }

    /// The versions that a cell may have after a cut.
    fn check(&self, cell: u64, found: u64, until: u64) -> Result<(), String> {
        let none = Vec::new();
        let sent = self.0.get(&cell).unwrap_or(&none);
        let is_durable = |sent: &&Sent| sent.durable.is_some_and(|durable| durable <= until);
        let least = sent.iter().rev().find(is_durable).map_or(0, |sent| sent.version);
        let newest = sent.iter().rev().find(|sent| sent.at <= until).map_or(0, |sent| sent.version);
        if (least..=newest).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "cell {cell} is version {found}; {least} was flushed and {newest} sent before record {until}"
        ))
    }
}

fn number_of_cuts() -> u64 {
    std::env::var("KICKCACHE_IT_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(12)
}

#[test]
fn flushed_writes_survive_power_cuts_in_write_back() {
    survive_cuts("write-back", 1);
}

#[test]
fn flushed_writes_survive_power_cuts_in_write_through() {
    survive_cuts("write-through", 2);
}

#[test]
fn flushed_writes_survive_power_cuts_in_write_around() {
    survive_cuts("write-around", 3);
}

fn survive_cuts(mode: &'static str, seed: u64) {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, CACHE_BYTES, ORIGIN_BYTES);
    let daemon = disks.spec(&scratch, mode).start();
    let first = disks.position();
    let history = write_a_while(&disks, &daemon, seed);
    daemon.kill();
    let (last, mut rng) = (disks.position(), Rng::new(seed));
    for number in 0..number_of_cuts() {
        let until = if number == 0 { last } else { rng.between(first, last) };
        if let Err(what) = check_cut(&scratch, &disks, &history, mode, (until, seed + number)) {
            panic!("{mode}, power cut behind record {until} of {last}, seed {}: {what}", seed + number);
        }
    }
}

/// Writes rounds of cells, most of them hot, several in flight, with flushes and reads between them.
fn write_a_while(disks: &FaultyDisks, daemon: &Daemon, seed: u64) -> History {
    let (mut history, mut rng) = (History::default(), Rng::new(seed));
    let mut client = daemon.connect();
    let (start, mut version) = (Instant::now(), 0);
    while start.elapsed() < TIME || version < 20 {
        version += 1;
        let bound = if rng.below(3) == 0 { CELLS } else { CELLS / 8 };
        let at = disks.position();
        let mut in_flight = 0;
        for _ in 0..ROUND_CELLS {
            let cell = rng.below(bound);
            let sent = history.0.entry(cell).or_default();
            if sent.last().is_some_and(|sent| sent.version == version) {
                continue;
            }
            sent.push(Sent { version, at, durable: None });
            send(&mut client, cell, version);
            in_flight += 1;
        }
        for _ in 0..in_flight {
            assert_eq!(client.receive().unwrap().errno, 0);
        }
        if rng.below(2) == 0 {
            client.flush();
            history.flushed(disks.position());
        }
        client.read(rng.below(CELLS) * CELL, 4096);
    }
    history
}

fn send(client: &mut Client, cell: u64, version: u64) {
    let mut data = vec![0; 4096];
    cells::fill(&mut data, cell, version);
    let request = Request { command: WRITE, flags: 0, offset: cell * CELL, length: 4096 };
    client.send(request, &data).unwrap();
}

/// A daemon on what a cut left.
pub(crate) fn start_on(
    scratch: &Scratch,
    mode: &'static str,
    [cache, origin]: &[PathBuf; 2],
) -> Option<Daemon> {
    let mut spec = Spec::new(scratch, origin, mode, "8M");
    spec.cache = cache.clone();
    // It was a file of another name before the cut. The notes are those of the time of the cut: what another cut came to
    // is not known.
    let state = scratch.path("state at the cut");
    let _ = fs::remove_dir_all(&state);
    fs::create_dir(&state).unwrap();
    for note in fs::read_dir(state_dir()).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(note.path(), state.join(note.file_name())).unwrap();
    }
    spec.extra = vec!["--origin-moved".into(), "--state".into(), state.into()];
    spec.try_start()
}

fn check_cut(
    scratch: &Scratch,
    disks: &FaultyDisks,
    history: &History,
    mode: &'static str,
    (until, seed): (u64, u64),
) -> Result<(), String> {
    let files = disks.cut(scratch, until, seed);
    let daemon = start_on(scratch, mode, &files).ok_or("the daemon refuses what is left")?;
    let found = read_all(&mut daemon.connect())?;
    for (cell, bytes) in (0..).zip(found.chunks(4096)) {
        history.check_bytes(cell, bytes, until)?;
    }
    // Once read, it stays so: after a kill, and on the origin after a drain.
    let daemon = daemon.kill().try_start().ok_or("the daemon refuses what it left itself")?;
    let again = read_all(&mut daemon.connect())?;
    let differ = |other: &[u8], what: &str| match difference(&found, other) {
        None => Ok(()),
        Some(cell) => Err(history.tell(cell, [&found, other], what)),
    };
    differ(&again, "after a second recovery")?;
    daemon.drain();
    daemon.stop();
    differ(&fs::read(&files[1]).unwrap(), "on the drained origin")
}

/// The first cell in which two volumes differ.
fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    one.chunks(4096).zip(other.chunks(4096)).position(|(one, other)| one != other)
}

fn read_all(client: &mut Client) -> Result<Vec<u8>, String> {
    let mut found = Vec::new();
    for start in (0..ORIGIN_BYTES).step_by(1 << 20) {
        let reply = client.call(Request { command: 0, flags: 0, offset: start, length: 1 << 20 }, &[]);
        let reply = reply.map_err(|error| format!("a read at {start}: {error}"))?;
        if reply.errno != 0 {
            return Err(format!("a read at {start} failed with error {}", reply.errno));
        }
        found.extend(reply.data);
    }
    Ok(found)
}

#[test]
fn a_cache_device_that_lies_about_flushes_is_noticed() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, CACHE_BYTES, ORIGIN_BYTES);
    let daemon = disks.spec(&scratch, "write-back").start();
    let first = disks.position();
    disks.tell("fault cache flush lie");
    let history = write_a_while(&disks, &daemon, 9);
    daemon.kill();
    let (last, mut rng) = (disks.position(), Rng::new(9));
    let noticed = (0..6).any(|seed| {
        let until = rng.between((first + last) / 2, last);
        check_cut(&scratch, &disks, &history, "write-back", (until, seed)).is_err()
    });
    assert!(noticed, "a device lost acknowledged writes, and the verifier saw nothing");
}

#[test]
fn a_file_system_survives_power_cuts() {
    need_kickcache!();
    if let Some(why) = disk::missing() {
        skip!("{why}");
    }
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, CACHE_BYTES, 48 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    let mut disk = match Disk::attach(&scratch, &daemon.uri(), "disk") {
        Ok(disk) => disk,
        Err(why) => skip!("{why}"),
    };
    tools::run("mkfs.ext4", ["-q", "-F", disk.device()]);
    daemon.connect().flush();
    let first = disks.position();
    let at = scratch.path("mounted");
    disk.mount(&at);
    let synced = write_files(&disks, &at);
    disk.unmount();
    drop(disk);
    daemon.stop();
    let (last, mut rng) = (disks.position(), Rng::new(5));
    for seed in 0..number_of_cuts().div_ceil(3) {
        let until = rng.between(first, last);
        check_file_system(&scratch, &disks, &synced, (until, seed));
    }
}

fn file_content(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let length = usize::try_from(rng.below(40_000)).unwrap();
    rng.bytes(length)
}

/// Writes files, each synced, some deleted again; gives where in the log each was durable.
fn write_files(disks: &FaultyDisks, at: &Path) -> Vec<(u64, u64)> {
    let (start, mut synced) = (Instant::now(), Vec::new());
    for number in 0.. {
        if start.elapsed() > TIME && number > 10 {
            break;
        }
        let mut file = File::create(at.join(number.to_string())).unwrap();
        file.write_all(&file_content(number)).unwrap();
        file.sync_all().unwrap();
        synced.push((number, disks.position()));
        let _ = fs::write(at.join("rewritten"), file_content(number));
    }
    synced
}

fn check_file_system(
    scratch: &Scratch,
    disks: &FaultyDisks,
    synced: &[(u64, u64)],
    (until, seed): (u64, u64),
) {
    let files = disks.cut(scratch, until, seed);
    let daemon = start_on(scratch, "write-back", &files).expect("the daemon recovers");
    let mut disk = Disk::attach(scratch, &daemon.uri(), &format!("disk {seed}")).unwrap();
    // Replays the journal of the file system.
    let at = scratch.path("mounted again");
    disk.mount(&at);
    for (number, _) in synced.iter().filter(|(_, durable)| *durable <= until) {
        let found = fs::read(at.join(number.to_string()));
        let is_right = found.is_ok_and(|found| found == file_content(*number));
        assert!(is_right, "file {number} was synced before record {until}; seed {seed}");
    }
    disk.unmount();
    tools::run("e2fsck", ["-f", "-n", disk.device()]);
    drop(disk);
    daemon.stop();
}

#[test]
fn the_history_has_the_possible_results_of_a_cut() {
    let mut history = History::default();
    let sent = |version, at| Sent { version, at, durable: None };
    history.0.insert(7, vec![sent(1, 10)]);
    history.flushed(20);
    history.0.entry(7).or_default().push(sent(2, 30));
    assert!(history.check(7, 0, 15).is_ok() && history.check(7, 1, 15).is_ok());
    assert!(history.check(7, 0, 25).is_err() && history.check(7, 1, 25).is_ok());
    assert!(history.check(7, 2, 25).is_err() && history.check(7, 2, 35).is_ok());
    assert!(history.check(8, 0, 35).is_ok() && history.check(8, 1, 35).is_err());
}
