//! Reports of failing devices.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::faulty::{FaultyDisks, Release};
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{faulty_disks, need_kickcache};

const EIO: u32 = 5;
const CACHE_BYTES: u64 = 8 * MIB;
const ORIGIN_BYTES: u64 = 16 * MIB;

/// Skips the test if there is no FUSE.
macro_rules! faulty {
    ($mode:literal) => {{
        need_kickcache!();
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, CACHE_BYTES, ORIGIN_BYTES);
        let mut spec = disks.spec(&scratch, $mode);
        spec.extra = vec!["--fill-window-max".into(), "4K".into()];
        (spec, disks, scratch)
    }};
}

fn call(client: &mut Client, command: u16, block: u64) -> u32 {
    let request = Request { command, flags: 0, offset: block * 4096, length: 4096 };
    let payload: &[u8] = if command == WRITE { &[7; 4096] } else { &[] };
    client.call(request, payload).unwrap().errno
}

/// Lines of the log with all of these; a client may receive its reply a moment before the line is written.
fn lines(daemon: &Daemon, with: &[&str]) -> usize {
    let count = || daemon.log().lines().filter(|line| with.iter().all(|what| line.contains(what))).count();
    let start = Instant::now();
    while count() == 0 && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    count()
}

fn of_volume(daemon: &Daemon, name: &str) -> Value {
    daemon.status()["caches"][0]["volumes"][0][name].clone()
}

#[test]
fn origin_errors_are_counted_and_the_first_is_logged() {
    let (spec, disks, _scratch) = faulty!("write-through");
    let daemon = spec.start();
    let mut client = daemon.connect();
    disks.tell("fault origin read eio");
    for block in 0..40 {
        assert_eq!(call(&mut client, READ, 2 * block), EIO);
    }
    let origin = spec.origin.display().to_string();
    let first =
        [origin.as_str(), "origin of v", "read failed", "4096 bytes at 0", "Input/output error (EIO)"];
    assert_eq!(lines(&daemon, &first), 1, "{}", daemon.log());
    assert_eq!(lines(&daemon, &["read failed"]), 1, "{}", daemon.log());
    disks.tell("fault origin write eio");
    assert_eq!(call(&mut client, WRITE, 9), EIO);
    assert_eq!(lines(&daemon, &["write failed", "4096 bytes at 36864", "EIO"]), 1, "{}", daemon.log());
    let last = of_volume(&daemon, "origin_last_error");
    assert!(last["count"].as_u64() >= Some(41), "{last}");
    assert_eq!((last["name"].as_str(), last["operation"].as_str()), (Some("EIO"), Some("write")), "{last}");
    assert!(last["seconds_ago"].as_f64() < Some(20.0), "{last}");
    let table = daemon.control(&["status"]);
    assert!(table.contains("errors, the last EIO (write)"), "{table}");
    let daemon_log = {
        let spec = daemon.stop();
        std::fs::read_to_string(spec.dir.join("daemon.log")).unwrap()
    };
    assert!(daemon_log.contains("read failed: Input/output error (EIO): and 39 more in"), "{daemon_log}");
}

#[test]
fn the_first_cache_device_error_is_logged_and_reported() {
    let (spec, disks, _scratch) = faulty!("write-through");
    let daemon = spec.start();
    let mut client = daemon.connect();
    disks.tell("fault cache write eio times 1");
    assert_eq!(call(&mut client, WRITE, 3), 0);
    let cache = spec.cache.display().to_string();
    let first = ["the cache device", cache.as_str(), "write failed", "Input/output error (EIO)"];
    assert_eq!(lines(&daemon, &first), 1, "{}", daemon.log());
    let last = daemon.status()["caches"][0]["last_error"].clone();
    assert_eq!((last["count"].as_u64(), last["name"].as_str()), (Some(1), Some("EIO")), "{last}");
    assert!(daemon.control(&["status"]).contains("1 error, the last EIO (write)"));
}

#[test]
fn a_drain_reports_at_once_that_the_origin_refuses() {
    let (spec, disks, _scratch) = faulty!("write-back");
    let daemon = spec.start();
    let mut client = daemon.connect();
    disks.tell("fault origin write eio");
    (0..8).for_each(|block| assert_eq!(call(&mut client, WRITE, block), 0));
    let mut drain = Command::new(KICKCACHE);
    drain.args(["drain", VOLUME, "--wait", "--control"]).arg(spec.control());
    let mut drain = drain.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    daemon.wait_for_log(&["the drain of v begins"]);
    daemon.control(&["drain", VOLUME]);
    assert_eq!(lines(&daemon, &["the drain of v begins"]), 1, "{}", daemon.log());
    thread::sleep(Duration::from_secs(13));
    disks.tell("clear");
    let start = Instant::now();
    while drain.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(30), "the drain does not end");
        thread::sleep(Duration::from_millis(50));
    }
    let output = drain.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let told: Vec<&str> = said.lines().filter(|line| line.contains("the last EIO (write)")).collect();
    assert_eq!(told.len(), 2, "at once, and after 10 s: {said}");
}

#[test]
fn a_silent_origin_and_its_return_are_reported() {
    let (spec, disks, _scratch) = faulty!("write-through");
    let daemon = spec.start();
    let release = Release(&disks);
    let mut client = daemon.connect();
    disks.tell("fault origin read hang");
    client.send(Request { command: READ, flags: 0, offset: 0, length: 4096 }, &[]).unwrap();
    thread::sleep(Duration::from_millis(11_500));
    let silent = of_volume(&daemon, "origin_silent_seconds");
    assert!(silent.as_f64() >= Some(10.0), "{silent}");
    assert!(daemon.control(&["status"]).contains("SILENT"));
    assert_eq!(lines(&daemon, &["origin of v", "has completed no operation for 1"]), 1, "{}", daemon.log());
    drop(release);
    assert_eq!(client.receive().unwrap().errno, 0);
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(of_volume(&daemon, "origin_silent_seconds"), Value::Null);
    assert_eq!(lines(&daemon, &["origin of v", "answers again"]), 1, "{}", daemon.log());
}

#[test]
fn a_start_fails_on_a_device_that_cannot_be_read() {
    let (spec, disks, _scratch) = faulty!("write-through");
    spec.start().stop();
    for (disk, path) in [("origin", &spec.origin), ("cache", &spec.cache)] {
        disks.tell(&format!("fault {disk} read eio"));
        assert!(spec.try_start().is_none(), "{disk}");
        let log = std::fs::read_to_string(spec.dir.join("daemon.log")).unwrap();
        let names = log.contains(&path.display().to_string());
        assert!(names && log.contains("Input/output error"), "{disk}: {log}");
        disks.tell("clear");
    }
    let _: Spec = spec.start().stop();
}

#[test]
fn a_start_names_the_awaited_device_and_gives_up() {
    let (spec, disks, _scratch) = faulty!("write-through");
    spec.start().stop();
    for (disk, path) in [("origin", &spec.origin), ("cache", &spec.cache)] {
        disks.tell(&format!("fault {disk} read hang"));
        let mut daemon = Daemon::start(spec.command(), spec.clone(), &[]);
        for (least, most, part) in [(2, 15, "has not answered for 3 s"), (25, 60, "does not answer")] {
            let line = format!("{} {part}", path.display());
            let start = Instant::now();
            while !daemon.log().contains(&line) && start.elapsed() < Duration::from_secs(most) {
                thread::sleep(Duration::from_millis(50));
            }
            let took = start.elapsed().as_secs();
            // A process that waits in the kernel for FUSE cannot be ended before the answer.
            if part == "does not answer" || took >= most {
                disks.tell("clear");
            }
            assert!((least - 1..most).contains(&took), "{disk}: `{line}` after {took} s: {}", daemon.log());
        }
        assert!(!daemon.wait().success(), "{disk}: it ended well");
        let _ = std::fs::remove_file(spec.dir.join("daemon.log"));
    }
    let _: Spec = spec.start().stop();
}

/// Writes until the cache device is out of service.
fn wear_out(daemon: &Daemon, disks: &FaultyDisks) {
    let mut client = daemon.connect();
    // Behind the superblocks and the service marks.
    disks.tell("fault cache write eio 1400000+9000000");
    for round in 0..2_000 {
        call(&mut client, WRITE, 64 + round % 2_048);
        if round % 50 == 0 && daemon.status()["caches"][0]["health"] == "out-of-service" {
            return;
        }
    }
    panic!("the cache device is still in service:\n{}", daemon.log());
}

#[test]
fn out_of_service_devices_have_steps_and_exact_dirty_counts() {
    let (spec, disks, _scratch) = faulty!("write-through");
    let daemon = spec.start();
    let mut client = daemon.connect();
    (0..64).for_each(|block| assert_eq!(call(&mut client, WRITE, block), 0));
    wear_out(&daemon, &disks);
    let state = state_dir();
    let next = format!("stop, then `kickcache format {} --state {}`", spec.cache.display(), state.display());
    assert_eq!(lines(&daemon, &["out of service: volumes go on", &next]), 1, "{}", daemon.log());
    assert!(!daemon.log().contains("are dirty"), "{}", daemon.log());
    let start = Instant::now();
    while daemon.status()["caches"][0]["record"] != "on-device" {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", daemon.status());
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(200));
    assert_eq!(lines(&daemon, &["itself records that it is out of service"]), 1, "{}", daemon.log());
    let page = daemon.control(&["status"]);
    assert!(
        page.contains(
            "; its failure is recorded on the device. Clients are served, but at the speed of the origins"
        ) && page.contains("to use the same device again after a repair: ")
            && page.contains(next.strip_prefix("stop, ").unwrap()),
        "{page}"
    );
}

#[test]
fn dirty_blocks_out_of_service_are_to_be_drained_first() {
    let (spec, disks, _scratch) = faulty!("write-back");
    let daemon = spec.start();
    disks.tell("fault origin write eio");
    let mut client = daemon.connect();
    (0..64).for_each(|block| assert_eq!(call(&mut client, WRITE, block), 0));
    wear_out(&daemon, &disks);
    let next = &format!("first `kickcache drain v --wait --control {}`", spec.control().display());
    let hangs = &format!(
        "with the daemon running: `kickcache leave-out --cache {} --abandon-dirty",
        spec.cache.display()
    );
    assert_eq!(lines(&daemon, &["out of service: volumes go on", next, hangs]), 1, "{}", daemon.log());
    assert_eq!(lines(&daemon, &["blocks of v are dirty and on"]), 1, "{}", daemon.log());
    assert_eq!(of_volume(&daemon, "incomplete"), true);
    let page = daemon.control(&["status"]);
    let next = format!("readable blocks (`kickcache drain v --wait --control {}`)", spec.control().display());
    assert!(page.contains(&next) && page.contains("are dirty and only on "), "{page}");
}
