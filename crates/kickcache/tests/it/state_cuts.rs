//! Power cuts at one instant of the cache devices, the origins and the state directory, during changes of a
//! daemon that serves.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::cut_history::{History, Load, read_all};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::faulty::{FaultyDisks, Loss, NewDisk, Recording};
use crate::power_cuts::number_of_cuts;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::state_disk::StateDisk;
use crate::{disk, need_kickcache, skip, tools};

const VOLUME_BYTES: u64 = 8 * MIB;
/// Bytes of the load; behind these are the first block after a change, and a block that a check writes.
const LOAD_BYTES: u64 = 7 * MIB;
const FIRST: u64 = LOAD_BYTES;
const CHECKED: u64 = LOAD_BYTES + MIB / 2;
const BLOCK: u32 = 4096;
const FIRST_DATA: [u8; BLOCK as usize] = [0xbb; BLOCK as usize];
const CACHE_BYTES: u64 = 8 * MIB;
const DISKS: [NewDisk; 5] = [
    ("cache", CACHE_BYTES + 4 * MIB),
    ("v", VOLUME_BYTES),
    ("w", VOLUME_BYTES),
    ("next", CACHE_BYTES + 4 * MIB),
    ("state-disk", VOLUME_BYTES),
];
/// Delays, so that clients write between the steps of a change.
const DELAYS: [&str; 5] = [
    "fault state-disk flush delay=10",
    "fault cache write delay=10 0+4096",
    "fault cache write delay=10 524288+4096",
    "fault next write delay=10 0+4096",
    "fault next write delay=10 524288+4096",
];

/// A change of a daemon that serves v.
struct Change {
    /// Of v before the change.
    mode: &'static str,
    /// The steps before the first power cut.
    prepare: fn(&Scene, &Daemon),
    run: fn(&Scene, &Daemon),
    /// After the change.
    volumes: &'static [&'static str],
    /// Cache devices that the configuration may name after the change.
    names: &'static [&'static str],
    /// Whether the first cache device in its state before the change may still be served.
    older_copy: OlderCopy,
}

/// For the locks of a killed daemon.
const LOCK_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OlderCopy {
    Current,
    Stale,
}

impl Change {
    fn of_v(run: fn(&Scene, &Daemon)) -> Change {
        Change {
            mode: "write-back",
            prepare: |_, _| {},
            run,
            volumes: &["v"],
            names: &["cache"],
            older_copy: OlderCopy::Current,
        }
    }
}

struct Scene {
    state: StateDisk,
    disks: FaultyDisks,
    scratch: Scratch,
}

/// Writes of clients between two moments, and their log.
struct Recorded {
    recording: Recording,
    histories: Vec<(&'static str, History)>,
    from: u64,
    /// Behind the first write of v after the change, and its flush.
    first: u64,
    to: u64,
    scratch: Scratch,
}

fn socket(scratch: &Scratch, volume: &str) -> PathBuf {
    scratch.path(&format!("{volume}.sock"))
}

fn configure(scratch: &Scratch, cache: &str, volumes: &[(&str, &str)]) {
    let path = |name: &str| scratch.path(name).display().to_string();
    let (control, cache) = (path("control.sock"), path(cache));
    let mut text = format!("control = \"{control}\"\n[[cache]]\ndevice = \"{cache}\"\nsize = \"8M\"\n");
    for (name, mode) in volumes {
        let (origin, socket) = (path(name), socket(scratch, name));
        text += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{origin}\"\nmode = \"{mode}\"\n");
        text += &format!("idle-after = \"24h\"\nnbd = [\"unix:{}\"]\n", socket.display());
    }
    fs::write(scratch.path("config.toml"), text).unwrap();
}

/// Returns the daemon if it serves this volume, else its log.
fn try_start(scratch: &Scratch, state: &Path, volume: &str, moved: &[&str]) -> Result<Daemon, String> {
    let mut arguments = vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
    arguments.extend(["--state".into(), state.into()]);
    arguments.extend(moved.iter().map(|name| format!("--origin-moved={name}").into()));
    let spec =
        Spec { nbd: Some(socket(scratch, volume)), ..Spec::new(scratch, &scratch.path("v"), "", "8M") };
    let log = scratch.path("daemon.log");
    let started = Daemon::try_start(guarded(KICKCACHE, arguments), spec);
    started.ok_or_else(|| fs::read_to_string(log).unwrap())
}

fn connect(scratch: &Scratch, volume: &str) -> Client {
    Client::connect(&socket(scratch, volume), volume).unwrap()
}

impl Scene {
    fn new() -> Result<Scene, String> {
        let scratch = Scratch::new();
        let disks = FaultyDisks::start(&scratch, &DISKS)?;
        let state = StateDisk::make(disks.file("state-disk"), &scratch.path("mounted"))?;
        // The cache device is smaller than its disk, so that it can grow.
        let (small, state_of_format) = (scratch.path("small"), scratch.path("state of the format"));
        let [file, folder] = [&small, &state_of_format].map(|path| path.to_str().unwrap());
        tools::run(KICKCACHE, ["format", file, "--size", "8M", "--state", folder]);
        File::options()
            .write(true)
            .open(disks.file("cache"))
            .unwrap()
            .write_all(&fs::read(&small).unwrap())
            .unwrap();
        Ok(Scene { state, disks, scratch })
    }

    /// Runs a change while clients write, and kills the daemon.
    fn record(self, change: &Change) -> Recorded {
        configure(&self.scratch, "cache", &[("v", change.mode)]);
        let daemon = try_start(&self.scratch, &self.state.folder(), "v", &[]).unwrap();
        (change.prepare)(&self, &daemon);
        DELAYS.into_iter().for_each(|delay| drop(self.disks.tell(delay)));
        let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut histories = Vec::new();
        let (from, first, to) = thread::scope(|scope| {
            // Ends the writes also if the change fails.
            let _stop = Stop(&stop);
            let writing = scope.spawn(|| {
                let load = Load { seed: 1, bytes: LOAD_BYTES };
                load.write_until(&self.disks, connect(&self.scratch, "v"), |round| {
                    rounds.store(round, Ordering::Relaxed);
                    stop.load(Ordering::Relaxed)
                })
            });
            wait_for_rounds(&rounds, 5);
            let from = self.disks.position();
            let mut client = connect(&self.scratch, "v");
            (change.run)(&self, &daemon);
            client.write(FIRST, &FIRST_DATA);
            client.flush();
            let first = self.disks.position();
            for volume in change.volumes.iter().filter(|volume| **volume != "v") {
                let load = Load { seed: 2, bytes: LOAD_BYTES };
                let client = connect(&self.scratch, volume);
                histories.push((*volume, load.write_until(&self.disks, client, |round| round > 10)));
            }
            wait_for_rounds(&rounds, rounds.load(Ordering::Relaxed) + 5);
            let to = self.disks.position();
            stop.store(true, Ordering::Relaxed);
            histories.push(("v", writing.join().unwrap()));
            (from, first, to)
        });
        daemon.kill();
        let Scene { state, disks, scratch } = self;
        disks.tell("clear");
        drop(state);
        Recorded { recording: disks.end(), histories, from, first, to, scratch }
    }
}

/// Ends the writing thread when dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_for_rounds(rounds: &AtomicU64, count: u64) {
    let start = Instant::now();
    while rounds.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < Duration::from_secs(60), "the daemon does not acknowledge writes");
        thread::sleep(Duration::from_millis(2));
    }
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    until: u64,
    loss: Loss,
}

impl Recorded {
    /// Random power cuts from before the change until after it, and two fixed ones.
    fn cuts(&self) -> Vec<Cut> {
        let mut rng = Rng::new(self.to);
        let count = number_of_cuts().div_ceil(3);
        let worst = |until| Cut { until, loss: Loss::All };
        let mut cuts = vec![worst(self.to), worst(self.first)];
        for number in 0..count {
            let part = (self.to - self.from) / count;
            let until = self.from + number * part + rng.below(part.max(1));
            let loss = if number % 2 == 0 { Loss::All } else { Loss::Seed(number) };
            cuts.push(Cut { until, loss });
        }
        cuts
    }

    /// Gives the state directory.
    fn replay(&self, cut: Cut) -> PathBuf {
        let files = DISKS.map(|(name, _)| self.scratch.path(name));
        self.recording.replay(cut.until, cut.loss, files.to_vec());
        let state = self.scratch.path("state at the cut");
        StateDisk::recover(&files[4], &self.scratch.path("mounted"), &state).unwrap();
        state
    }

    /// A daemon that serves all these volumes, with a cache device of this name in the configuration; else
    /// its log.
    fn start(&self, volumes: &[&str], cache: &str, state: &Path) -> Result<Daemon, String> {
        let begun = Instant::now();
        loop {
            // The kernel may keep the locks of a killed daemon until its I/O has ended.
            match self.start_once(volumes, cache, state) {
                Err(log) if log.contains("it holds a lock on it") && begun.elapsed() < LOCK_MAX => {}
                started => return started,
            }
        }
    }

    fn start_once(&self, volumes: &[&str], cache: &str, state: &Path) -> Result<Daemon, String> {
        let modes: Vec<_> = volumes.iter().map(|volume| (*volume, "write-back")).collect();
        configure(&self.scratch, cache, &modes);
        let mut daemon = try_start(&self.scratch, state, volumes[0], volumes)?;
        // The log names refused volumes before the others are served.
        if volumes.iter().any(|volume| daemon.log().contains(&format!("volume {volume} is not served"))) {
            let log = daemon.log();
            daemon.kill();
            return Err(log);
        }
        volumes.iter().for_each(|volume| daemon.wait_for(&socket(&self.scratch, volume)));
        Ok(daemon)
    }

    fn check_data(&self, volumes: &[&str], until: u64) -> Result<(), String> {
        if volumes.contains(&"v")
            && until >= self.first
            && connect(&self.scratch, "v").read(FIRST, BLOCK) != FIRST_DATA
        {
            return Err("the first write after the change is lost".into());
        }
        let served = self.histories.iter().filter(|(volume, _)| volumes.contains(volume));
        served.into_iter().try_for_each(|(volume, history)| {
            let found = read_all(&mut connect(&self.scratch, volume), VOLUME_BYTES)?;
            let found = &found[..usize::try_from(LOAD_BYTES).unwrap()];
            history.check_volume(found, until).map_err(|what| format!("{volume}: {what}"))
        })
    }

    fn check_names(&self, change: &Change, cut: Cut) -> Result<(), String> {
        for first in change.names {
            let state = self.replay(cut);
            let daemon = match self.start(change.volumes, first, &state) {
                Ok(daemon) => daemon,
                // The other device was not yet prepared at the cut.
                Err(log) if *first != "cache" && log.contains("serve the volume with that device") => {
                    continue;
                }
                Err(log) => return Err(log),
            };
            self.check_data(change.volumes, cut.until).map_err(|what| format!("with {first}: {what}"))?;
            let mark = [0xaa; BLOCK as usize];
            let mut client = connect(&self.scratch, "v");
            client.write(CHECKED, &mark);
            client.flush();
            drop(client);
            daemon.kill();
            for second in change.names {
                let Ok(daemon) = self.start(change.volumes, second, &state) else { continue };
                let context = |what| format!("with {first}, then with {second}: {what}");
                self.check_data(change.volumes, cut.until).map_err(context)?;
                if connect(&self.scratch, "v").read(CHECKED, BLOCK) != mark {
                    return Err(context("a write is lost".into()));
                }
                daemon.kill();
            }
        }
        Ok(())
    }

    /// Without their names, other volumes would get their numbers, and their blocks.
    fn check_names_of_volumes(&self, change: &Change) {
        self.replay(Cut { until: self.to, loss: Loss::All });
        let named = change.names.last().unwrap();
        // The exit code differs for a device that is left out.
        let shown =
            tools::output(KICKCACHE, ["inspect", self.scratch.path(named).to_str().unwrap(), "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let volumes = shown["volumes"].as_array().unwrap();
        let is_known = |name: &&&str| volumes.iter().any(|volume| volume["name"] == ***name);
        assert_eq!(change.volumes.iter().filter(is_known).count(), change.volumes.len(), "{shown}");
    }

    /// A daemon on other cache devices serves all data, or refuses and names a remedy.
    fn check_others(&self, change: &Change, cut: Cut, place: impl Fn()) -> Result<(), String> {
        // `start` fails if one of its volumes is refused.
        let alone = change.volumes.chunks(1).filter(|_| change.volumes.len() > 1);
        for volumes in alone.chain([change.volumes]) {
            for name in change.names {
                let state = self.replay(cut);
                place();
                match self.start(volumes, name, &state) {
                    Ok(daemon) => {
                        let checked = self.check_data(volumes, cut.until);
                        checked.map_err(|what| format!("with another {name}: {what}"))?;
                        daemon.kill();
                    }
                    Err(log) if log.contains("--new-cache") || log.contains("older copy") => {}
                    Err(log) => return Err(format!("refused without a remedy: {log}")),
                }
            }
        }
        Ok(())
    }

    /// Puts empty devices in the place of both cache devices.
    fn blank(&self) {
        for (name, size) in [DISKS[0], DISKS[3]] {
            File::create(self.scratch.path(name)).unwrap().set_len(size).unwrap();
        }
    }

    fn keep_older(&self) -> PathBuf {
        self.replay(Cut { until: self.from, loss: Loss::All });
        let older = self.scratch.path("older copy");
        fs::rename(self.scratch.path("cache"), &older).unwrap();
        older
    }
}

fn survive(change: &Change) {
    need_kickcache!();
    if let Some(why) = disk::missing() {
        skip!("{why}");
    }
    let scene = match Scene::new() {
        Ok(scene) => scene,
        Err(why) => skip!("{why}"),
    };
    let recorded = scene.record(change);
    for cut in recorded.cuts() {
        let checked = recorded.check_names(change, cut);
        let checked = checked.and_then(|()| recorded.check_others(change, cut, || recorded.blank()));
        checked.unwrap_or_else(|what| {
            panic!("power cut {cut:?} between {} and {}: {what}", recorded.from, recorded.to)
        });
    }
    recorded.check_names_of_volumes(change);
    if change.older_copy == OlderCopy::Stale {
        let older = recorded.keep_older();
        let place = || {
            fs::copy(&older, recorded.scratch.path("cache")).unwrap();
        };
        let last = Cut { until: recorded.to, loss: Loss::All };
        recorded.check_others(change, last, place).unwrap();
    }
}

fn control(daemon: &Daemon, words: &[&str]) {
    daemon.control(words);
}

#[test]
fn flushed_writes_survive_power_cuts_during_a_replacement() {
    let replace = |scene: &Scene, daemon: &Daemon| {
        control(daemon, &["replace", "--with", scene.disks.file("next").to_str().unwrap()]);
    };
    survive(&Change { names: &["cache", "next"], older_copy: OlderCopy::Stale, ..Change::of_v(replace) });
}

#[test]
fn flushed_writes_survive_power_cuts_during_leave_out() {
    let leave_out = |_: &Scene, daemon: &Daemon| control(daemon, &["leave-out"]);
    survive(&Change { older_copy: OlderCopy::Stale, ..Change::of_v(leave_out) });
}

#[test]
fn flushed_writes_survive_power_cuts_during_insertion() {
    let take_in = |scene: &Scene, daemon: &Daemon| {
        control(daemon, &["replace", "--with", scene.disks.file("next").to_str().unwrap()]);
    };
    // The records of two volumes are written one by one.
    let prepare = |scene: &Scene, daemon: &Daemon| {
        configure(&scene.scratch, "cache", &[("v", "write-back"), ("w", "write-back")]);
        control(daemon, &["reload"]);
        control(daemon, &["leave-out"]);
    };
    let names = &["cache", "next"];
    survive(&Change { names, prepare, volumes: &["w", "v"], ..Change::of_v(take_in) });
}

#[test]
fn flushed_writes_survive_power_cuts_while_a_device_grows() {
    survive(&Change::of_v(|_, daemon| {
        let said = daemon.control(&["grow", "--size", "12M"]);
        assert!(!said.contains("unchanged"), "{said}");
    }));
}

#[test]
fn flushed_writes_survive_power_cuts_during_mode_changes() {
    let change = |_: &Scene, daemon: &Daemon| control(daemon, &["mode", "v", "write-back"]);
    survive(&Change { mode: "write-through", ..Change::of_v(change) });
}

#[test]
fn flushed_writes_survive_power_cuts_while_a_volume_is_added() {
    let add = |scene: &Scene, daemon: &Daemon| {
        let path = |name: &str| scene.disks.file(name).to_str().unwrap().to_owned();
        let (cache, origin) = (path("cache"), path("w"));
        let nbd = format!("unix:{}", socket(&scene.scratch, "w").display());
        let words = ["add", "--cache", &cache, "--origin", &origin, "--nbd", &nbd, "--mode", "write-back"];
        control(daemon, &[&words[..], &["--idle-after", "24h"]].concat());
    };
    survive(&Change { volumes: &["w", "v"], ..Change::of_v(add) });
}

#[test]
fn flushed_writes_survive_power_cuts_during_a_reload() {
    let reload = |scene: &Scene, daemon: &Daemon| {
        configure(&scene.scratch, "cache", &[("v", "write-back"), ("w", "write-back")]);
        control(daemon, &["reload"]);
    };
    survive(&Change { mode: "write-through", volumes: &["w", "v"], ..Change::of_v(reload) });
}
