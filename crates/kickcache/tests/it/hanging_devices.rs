//! Devices that do not respond while the daemon receives another request.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::client::{Client, READ, Request};
use crate::daemon::{Daemon, KICKCACHE};
use crate::faulty::{FaultyDisks, Release};
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, need_tools, skip, tools};

/// The origin of `one` is a disk that fails on demand.
fn pair_on(scratch: &Scratch, disks: &FaultyDisks) -> Pair {
    let pair = Pair::new(scratch, "write-back");
    let faulty = disks.spec(scratch, "write-back").origin;
    fs::remove_file(pair.origin("one")).unwrap();
    std::os::unix::fs::symlink(&faulty, pair.origin("one")).unwrap();
    pair
}

fn command(pair: &Pair, arguments: &[&str]) -> Child {
    let mut command = Command::new(KICKCACHE);
    command.args(arguments).arg("--control").arg(pair.spec.control());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The command must fail.
fn refusal(command: Child) -> String {
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The standard error of a command that ends before its operation does.
fn still_running(command: Child) -> String {
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(10), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The disk of `one` hangs.
fn serve_beside(pair: &Pair, daemon: &Daemon) {
    let mut client = pair.client("two");
    for _ in 0..20 {
        client.write(0, &[2; 4096]);
        daemon.status();
    }
}

#[test]
fn a_resize_with_a_silent_origin_delays_no_others() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = pair_on(&scratch, &disks);
    let daemon = pair.start(&[], &NAMES);
    let _release = Release(&disks);
    // The kernel caches the size for a second.
    thread::sleep(Duration::from_millis(1_500));
    let frozen = disks.freeze_origin();
    let resize = command(&pair, &["resize", "one"]);
    thread::sleep(Duration::from_millis(200));
    let again = refusal(command(&pair, &["resize", "one"]));
    assert!(again.contains("its resize is in progress already"), "{again}");
    serve_beside(&pair, &daemon);
    let said = still_running(resize);
    assert!(said.contains("origin of one has not reported its size for 8 s"), "{said}");
    let again = command(&pair, &["resize", "one"]);
    drop(frozen);
    let joined = again.wait_with_output().unwrap();
    assert!(joined.status.success(), "{joined:?}");
    daemon.wait_for_log(&["the size of one is unchanged: 8388608 bytes"]);
    let said = daemon.control(&["resize", "one"]);
    assert_eq!(said, "one: 8 MiB (8388608 bytes), unchanged\n");
    daemon.stop();
}

#[test]
fn a_resize_waits_for_a_silent_cache_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = Pair::new(&scratch, "write-back");
    let cache = format!("[[cache]]\ndevice = \"{}\"\n", disks.spec(&scratch, "write-back").cache.display());
    pair.configure(&(cache + &pair.volume("one") + &pair.volume("two")));
    let daemon = pair.start(&[], &NAMES);
    let _release = Release(&disks);
    File::options().write(true).open(pair.origin("one")).unwrap().set_len(12 * MIB).unwrap();
    disks.tell("fault cache any hang");
    let resize = command(&pair, &["resize", "one"]);
    thread::sleep(Duration::from_millis(500));
    daemon.status();
    let said = still_running(resize);
    assert!(
        said.contains("the cache device") && said.contains("has not taken the new size for 8 s"),
        "{said}"
    );
    assert_eq!(pair.client("one").size, 8 * MIB, "it is told before it is noted");
    disks.tell("clear");
    daemon.wait_for_log(&["one now has 12582912 bytes"]);
    assert_eq!(pair.client("one").size, 12 * MIB);
    daemon.stop();
    let daemon = pair.start(&[], &NAMES);
    assert_eq!(pair.client("one").size, 12 * MIB);
    daemon.stop();
}

/// The origin hangs, and a client waits for a read of `one`.
fn owe_a_read(pair: &Pair, disks: &FaultyDisks) -> Client {
    disks.tell("fault origin any hang");
    let mut client = pair.client("one");
    client.send(Request { command: READ, flags: 0, offset: 4 * MIB, length: 4096 }, &[]).unwrap();
    thread::sleep(Duration::from_millis(500));
    client
}

/// A read of the origin of `one` is outstanding, and the daemon has reported that its stop waits for the
/// read.
fn stop_beside_a_hanging_origin(pair: &Pair, disks: &FaultyDisks) -> Daemon {
    let daemon = pair.start(&[], &NAMES);
    let release = Release(disks);
    pair.client("one").write(MIB, &[7; 65536]);
    pair.client("two").write(0, &[2; 4096]);
    let _client = owe_a_read(pair, disks);
    daemon.signal(Signal::TERM);
    // Without effect: the log has not yet reported the effect of a second SIGTERM.
    daemon.signal(Signal::TERM);
    let path = fs::canonicalize(pair.origin("one")).unwrap();
    let line = ["the stop waits for", path.to_str().unwrap(), "origin of one", "SIGTERM now ends it"];
    daemon.wait_for_log(&line);
    std::mem::forget(release);
    daemon
}

#[test]
fn a_stop_names_the_awaited_origin_and_ends_well() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = pair_on(&scratch, &disks);
    let mut daemon = stop_beside_a_hanging_origin(&pair, &disks);
    let _release = Release(&disks);
    thread::sleep(Duration::from_secs(11));
    let log = daemon.log();
    assert_eq!(log.matches("the stop waits for").count(), 2, "{log}");
    assert!(daemon.is_alive());
    disks.tell("clear");
    let status = daemon.wait();
    daemon.check_end(status);
}

#[test]
fn kickcache_stop_names_the_awaited_origin_as_the_log_does() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = pair_on(&scratch, &disks);
    let mut daemon = pair.start(&[], &NAMES);
    let _release = Release(&disks);
    let _client = owe_a_read(&pair, &disks);
    let stop = command(&pair, &["stop"]);
    thread::sleep(Duration::from_secs(22));
    disks.tell("clear");
    let output = stop.wait_with_output().unwrap();
    let (said, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && said == "stopped\n", "{said}{told}");
    let path = fs::canonicalize(pair.origin("one")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    for part in ["the stop waits for", path.to_str().unwrap(), "origin of one", "1 operation in flight"] {
        assert!(lines.iter().all(|line| line.contains(part)), "no `{part}`: {told}");
    }
    let status = daemon.wait();
    daemon.check_end(status);
}

fn cut_short(daemon: &mut Daemon, disks: &FaultyDisks, said: &[&str]) {
    daemon.signal(Signal::TERM);
    daemon.wait_for_log(said);
    // A process that waits in the kernel for FUSE cannot be ended before the answer.
    disks.tell("clear");
    assert_eq!(daemon.wait().code(), Some(8), "{}", daemon.log());
}

fn both_are_whole(pair: &Pair) {
    let daemon = pair.start(&[], &NAMES);
    assert_eq!(pair.client("one").read(MIB, 65536), [7; 65536]);
    assert_eq!(pair.client("two").read(0, 4096), [2; 4096]);
    daemon.stop();
}

#[test]
fn a_second_sigterm_ends_a_waiting_stop_like_a_kill() {
    need_kickcache!();
    for io_engine in ["io_uring", "threads"] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
        let pair = pair_on(&scratch, &disks);
        let other = scratch.path("other cache");
        let caches = [(pair.spec.cache.clone(), "one"), (other, "two")].map(|(device, name)| {
            format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n{}", device.display(), pair.volume(name))
        });
        pair.configure(&(format!("io-engine = \"{io_engine}\"\n") + &caches.concat()));
        let mut daemon = stop_beside_a_hanging_origin(&pair, &disks);
        let _release = Release(&disks);
        cut_short(&mut daemon, &disks, &["a signal ended the stop", "origin of one", "as after kill -9"]);
        let log = daemon.log();
        assert!(!log.contains("panicked at"), "{log}");
        let clean = log.matches("the server has stopped; all acknowledged writes").count();
        assert_eq!(clean, 1, "the neighbour, and nobody else: {log}");
        both_are_whole(&pair);
    }
}

#[test]
fn sigterm_ends_a_commanded_stop_and_the_command_reports_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = pair_on(&scratch, &disks);
    let mut daemon = pair.start(&[], &NAMES);
    let _release = Release(&disks);
    let _client = owe_a_read(&pair, &disks);
    let stop = command(&pair, &["stop"]);
    daemon.wait_for_log(&["the stop waits for", "SIGTERM now ends it"]);
    cut_short(&mut daemon, &disks, &["a signal ended the stop, which did not wait for"]);
    let output = stop.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()), "{told}");
    assert!(told.contains("not cleanly") && told.contains("as after kill -9"), "{told}");
}

#[test]
fn after_a_stop_cut_short_no_acknowledged_write_is_lost() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = pair_on(&scratch, &disks);
    let mut daemon = stop_beside_a_hanging_origin(&pair, &disks);
    let _release = Release(&disks);
    cut_short(&mut daemon, &disks, &["a signal ended the stop"]);
    both_are_whole(&pair);
}

/// A file system for the state directory that can be frozen.
struct SlowState(PathBuf);

impl SlowState {
    fn mount(scratch: &Scratch) -> Option<SlowState> {
        let (disk, folder) = (scratch.sparse("state disk", 16 * MIB), scratch.path("state"));
        tools::run("mkfs.ext4", ["-q".as_ref(), disk.as_os_str()]);
        fs::create_dir_all(&folder).unwrap();
        let options = ["-o".as_ref(), "loop".as_ref(), disk.as_os_str(), folder.as_os_str()];
        let is_mounted = tools::output("mount", options).status.success();
        is_mounted.then(|| SlowState(folder))
    }

    fn freeze(&self) {
        tools::run("fsfreeze", ["-f".as_ref(), self.0.as_os_str()]);
    }

    fn thaw(&self) {
        tools::output("fsfreeze", ["-u".as_ref(), self.0.as_os_str()]);
    }
}

struct Thaw<'a>(&'a SlowState);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

impl Drop for SlowState {
    fn drop(&mut self) {
        self.thaw();
        tools::output("umount", ["-l".as_ref(), self.0.as_os_str()]);
    }
}

#[test]
fn a_stop_reports_that_it_waits_for_the_state_directory() {
    need_kickcache!();
    need_tools!("mkfs.ext4", "mount", "fsfreeze");
    let scratch = Scratch::new();
    let Some(state) = SlowState::mount(&scratch) else { skip!("nothing can be mounted here") };
    let pair = Pair::new(&scratch, "write-back");
    let mut daemon = pair.start(&[], &NAMES);
    let state = Thaw(&state);
    state.0.freeze();
    daemon.signal(Signal::TERM);
    daemon.wait_for_log(&["the stop waits for", "state directory"]);
    drop(state);
    let status = daemon.wait();
    daemon.check_end(status);
}
