//! Power cuts on disks that record every write.
//!
//! `KICKCACHE_IT_CUTS` sets how many power cuts there are.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cut_history::{History, Load, read_all};
use crate::daemon::{Daemon, Spec};
use crate::disk::{self, Disk};
use crate::faulty::FaultyDisks;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{faulty_disks, need_kickcache, skip, tools};

const CACHE_BYTES: u64 = 8 * MIB;
const ORIGIN_BYTES: u64 = 16 * MIB;
const TIME: Duration = Duration::from_millis(2500);

pub(crate) fn number_of_cuts() -> u64 {
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

fn write_a_while(disks: &FaultyDisks, daemon: &Daemon, seed: u64) -> History {
    let start = Instant::now();
    let load = Load { seed, bytes: ORIGIN_BYTES };
    load.write_until(disks, daemon.connect(), |round| start.elapsed() >= TIME && round >= 20)
}

pub(crate) fn start_on(
    scratch: &Scratch,
    mode: &'static str,
    [cache, origin]: &[PathBuf; 2],
) -> Option<Daemon> {
    let mut spec = Spec::new(scratch, origin, mode, "8M");
    spec.cache = cache.clone();
    // The file had another name before the cut. The results of other cuts are unknown at the cut.
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
    let found = read_all(&mut daemon.connect(), ORIGIN_BYTES)?;
    history.check_volume(&found, until)?;
    // After a read, the content is fixed.
    let daemon = daemon.kill().try_start().ok_or("the daemon refuses what it left itself")?;
    let again = read_all(&mut daemon.connect(), ORIGIN_BYTES)?;
    let differ = |other: &[u8], what: &str| match difference(&found, other) {
        None => Ok(()),
        Some(cell) => Err(history.tell(cell, [&found, other], what)),
    };
    differ(&again, "after a second recovery")?;
    daemon.drain();
    daemon.stop();
    differ(&fs::read(&files[1]).unwrap(), "on the drained origin")
}

/// The first cell that differs.
fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    one.chunks(4096).zip(other.chunks(4096)).position(|(one, other)| one != other)
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

/// Returns the place in the log at which each file was durable.
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
