//! A volume with an origin in trouble, next to a volume with a healthy origin.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, io, thread};

use crate::bad_input::Loop;
use crate::client::{Client, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::faulty::FaultyDisks;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, skip};

const ORIGIN_BYTES: u64 = 24 * MIB;
const WRITE_BYTES: u32 = 64 << 10;
/// Of each client of the healthy volume, between two checks of the other one.
const WRITES: u64 = 100;
/// An origin that only refuses writes never becomes quiet.
const LOOKS_MAX: u64 = 5;

fn write_until(stop: &AtomicBool, mut client: Client, seed: u64, count: &AtomicU64) {
    let mut rng = Rng::new(seed);
    while !stop.load(Ordering::Relaxed) && write(&mut client, &mut rng).is_ok() {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the errno.
fn write(client: &mut Client, rng: &mut Rng) -> io::Result<u32> {
    let offset = rng.below(ORIGIN_BYTES / u64::from(WRITE_BYTES)) * u64::from(WRITE_BYTES);
    let request = Request { command: WRITE, flags: 0, offset, length: WRITE_BYTES };
    Ok(client.call(request, &vec![7; WRITE_BYTES as usize])?.errno)
}

/// All writes to the healthy volume must end before the trouble. A client waits for half a minute.
fn check_neighbour(daemon: &Daemon, mut clients: [Client; 2], ill: &AtomicU64) {
    let mut rng = Rng::new(100);
    let mut before = u64::MAX;
    for _ in 0..LOOKS_MAX {
        for client in &mut clients {
            (0..WRITES).for_each(|_| assert_eq!(write(client, &mut rng).unwrap(), 0));
        }
        daemon.status();
        let written = ill.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, written) == written {
            return;
        }
    }
}

struct Trouble {
    fault: &'static str,
    /// Concurrent writers.
    clients: u64,
    io_engine: &'static str,
    is_block_device: bool,
}

/// Ends the trouble and the writes when it is dropped.
struct End<'a> {
    stop: &'a AtomicBool,
    disks: &'a FaultyDisks,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.disks.tell("clear");
    }
}

/// A loop device that takes four requests at a time.
fn narrow_loop(file: &Path) -> Result<Loop, String> {
    let device = Loop::new(file)?;
    let queue = Path::new("/sys/block").join(device.path().file_name().unwrap()).join("queue");
    fs::write(queue.join("nr_requests"), "4").map_err(|error| format!("nr_requests: {error}"))?;
    Ok(device)
}

fn beside(trouble: &Trouble) {
    let Trouble { fault, clients, io_engine, is_block_device } = trouble;
    for mode in ["write-back", "write-through", "write-around"] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, ORIGIN_BYTES);
        let mut faulty = disks.spec(&scratch, "write-back").origin;
        let narrow = match is_block_device.then(|| narrow_loop(&faulty)).transpose() {
            Ok(narrow) => narrow,
            Err(why) => skip!("{why}"),
        };
        faulty = narrow.as_ref().map_or(faulty, Loop::path);
        let spec = Spec::new(&scratch, &scratch.sparse("well", ORIGIN_BYTES), "write-back", "16M");
        let mut config = format!(
            "control = \"{}\"\nio-engine = \"{io_engine}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"16M\"\n",
            spec.control().display(),
            scratch.path("shared cache").display()
        );
        let sockets = ["ill", "well"].map(|name| scratch.path(&format!("{name}.sock")));
        for (name, origin) in [("ill", &faulty), ("well", &spec.origin)] {
            let socket = scratch.path(&format!("{name}.sock"));
            config += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{}\"\n", origin.display());
            config += &format!("mode = \"{mode}\"\nnbd = [\"unix:{}\"]\n", socket.display());
        }
        fs::write(scratch.path("config.toml"), config).unwrap();
        let arguments: Vec<OsString> =
            vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
        let daemon = Daemon::start(guarded(KICKCACHE, arguments), spec.clone(), &sockets);
        disks.tell(&format!("fault origin {fault}"));
        let connect = |at: usize| Client::connect(&sockets[at], ["ill", "well"][at]).unwrap();
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..*clients {
                let client = connect(0);
                let (stop, written) = (&stop, &written);
                scope.spawn(move || write_until(stop, client, seed, written));
            }
            // Hanging writes end also if a check fails.
            let _end = End { stop: &stop, disks: &disks };
            check_neighbour(&daemon, [connect(1), connect(1)], &written);
        });
        daemon.kill();
    }
}

#[test]
fn an_origin_that_refuses_writes_delays_no_others() {
    need_kickcache!();
    beside(&Trouble { fault: "write eio", clients: 2, io_engine: "auto", is_block_device: false });
}

#[test]
fn a_silent_origin_delays_no_others() {
    need_kickcache!();
    beside(&Trouble { fault: "write hang", clients: 2, io_engine: "auto", is_block_device: false });
}

#[test]
fn an_origin_with_full_queues_delays_no_others() {
    need_kickcache!();
    // FUSE queues twelve requests.
    beside(&Trouble { fault: "any hang", clients: 24, io_engine: "auto", is_block_device: false });
}

#[test]
fn a_block_device_with_a_full_queue_delays_no_others() {
    need_kickcache!();
    beside(&Trouble { fault: "any hang", clients: 24, io_engine: "auto", is_block_device: true });
}

#[test]
fn threads_that_wait_for_an_origin_delay_no_others() {
    need_kickcache!();
    beside(&Trouble { fault: "write hang", clients: 24, io_engine: "threads", is_block_device: false });
}
