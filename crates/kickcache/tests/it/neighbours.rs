//! A volume whose origin refuses writes or does not answer, beside one whose origin is well.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::bad_input::Loop;
use crate::client::{Client, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, skip};

const ORIGIN_BYTES: u64 = 24 * MIB;
const WRITE_BYTES: u32 = 64 << 10;
/// How long both are written to, and what a write may take at most: a frozen volume waits for as long as the trouble lasts.
const SPAN: Duration = Duration::from_secs(8);
const LONGEST: Duration = Duration::from_secs(4);

/// Writes at random places; gives the longest wait, the writes and the errors.
fn write(mut client: Client, seed: u64) -> (Duration, u64, u64) {
    let (start, mut rng) = (Instant::now(), Rng::new(seed));
    let (mut longest, mut count, mut errors) = (Duration::ZERO, 0, 0);
    while start.elapsed() < SPAN {
        let offset = rng.below(ORIGIN_BYTES / u64::from(WRITE_BYTES)) * u64::from(WRITE_BYTES);
        let request = Request { command: WRITE, flags: 0, offset, length: WRITE_BYTES };
        let begin = Instant::now();
        let Ok(reply) = client.call(request, &vec![7; WRITE_BYTES as usize]) else { break };
        longest = longest.max(begin.elapsed());
        count += 1;
        errors += u64::from(reply.errno != 0);
    }
    (longest, count, errors)
}

fn time_of_status(daemon: &Daemon) -> Duration {
    let asked = Instant::now();
    daemon.status();
    asked.elapsed()
}

/// What is wrong with an origin, and how it is driven.
struct Trouble {
    fault: &'static str,
    /// How many write to it at a time.
    clients: u64,
    io_engine: &'static str,
    /// Whether a loop device makes it a block device.
    is_block_device: bool,
}

/// A loop device that takes four requests at a time.
fn narrow_loop(file: &Path) -> Result<Loop, String> {
    let device = Loop::new(file)?;
    let queue = Path::new("/sys/block").join(device.path().file_name().unwrap()).join("queue");
    fs::write(queue.join("nr_requests"), "4").map_err(|error| format!("nr_requests: {error}"))?;
    Ok(device)
}

/// Writes to a healthy volume beside one in trouble.
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
        let start = |(at, seed)| {
            (at, {
                let client = connect(at);
                thread::spawn(move || write(client, seed))
            })
        };
        let ill = (0..*clients).map(|seed| (0, seed));
        let writers: Vec<_> = ill.chain([(1, 100), (1, 101)]).map(start).collect();
        let answered = thread::scope(|scope| {
            thread::sleep(SPAN / 2);
            let status = scope.spawn(|| time_of_status(&daemon));
            thread::sleep(SPAN / 2);
            // So that those that hang come to an end.
            disks.tell("clear");
            status.join().unwrap()
        });
        assert!(answered < SPAN / 2, "{mode}: a status took {answered:?}");
        for (at, writer) in writers {
            let (longest, count, errors) = writer.join().unwrap();
            let name = ["ill", "well"][at];
            eprintln!("{mode} {name}: {count} writes, {errors} errors, the longest {longest:?}");
            if at == 1 {
                assert!(errors == 0 && longest < LONGEST, "{mode}: {errors} errors, {longest:?}");
                assert!(count > 100, "{mode}: {count} writes");
            }
        }
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
    // FUSE has twelve in its own queue; who brings the next one waits for room.
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
