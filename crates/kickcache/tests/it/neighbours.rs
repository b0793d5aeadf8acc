//! A volume whose origin refuses writes or does not answer, beside one whose origin is well.

use std::ffi::OsString;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

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

/// Writes to a healthy volume beside one in trouble.
fn beside(trouble: &str, io_engine: &str) {
    for mode in ["write-back", "write-through", "write-around"] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, ORIGIN_BYTES);
        let faulty = disks.spec(&scratch, "write-back").origin;
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
        disks.tell(&format!("fault origin write {trouble}"));
        let connect = |at: usize| Client::connect(&sockets[at], ["ill", "well"][at]).unwrap();
        let writers = [(0, 1), (0, 2), (1, 3), (1, 4)]
            .map(|(at, seed)| (at, connect(at), seed))
            .map(|(at, client, seed)| (at, thread::spawn(move || write(client, seed))));
        thread::sleep(SPAN);
        // So that those that hang come to an end.
        disks.tell("clear");
        let told = writers.map(|(at, writer)| (at, writer.join().unwrap()));
        for (at, (longest, count, errors)) in told {
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
fn an_origin_that_refuses_writes_delays_nobody_else() {
    need_kickcache!();
    beside("eio", "auto");
}

#[test]
fn an_origin_that_does_not_answer_delays_nobody_else() {
    need_kickcache!();
    beside("hang", "auto");
}

#[test]
fn threads_that_wait_for_an_origin_delay_nobody_else() {
    need_kickcache!();
    beside("hang", "threads");
}
