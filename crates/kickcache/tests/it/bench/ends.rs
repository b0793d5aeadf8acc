//! The end of a bench when its surroundings end.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{command, complaint, small};
use crate::nbd_server::Server;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

#[test]
fn a_closed_output_loses_no_results() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let (saved, page) = (scratch.path("saved.json"), scratch.path("page.html"));
    let new = format!("a={}", scratch.path("new").display());
    let files = ["--save", saved.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let once = ["--target", &new, "--rounds", "1", "--noise-floor", "computed"];
    let mut bench = command(&small(&[&once[..], &files].concat()));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = bench.stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    for text in [output.stdout, fs::read(saved).unwrap()] {
        let result: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(result["end"], "complete");
    }
    assert!(fs::read_to_string(page).unwrap().contains("</html>"));
}

#[test]
fn a_terminal_that_is_closed_is_an_interruption() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let disk = format!("a={}", scratch.random("disk", 4 * MIB, 1).display());
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut bench = command(&small(&["--target", &disk, "--rounds", "1000"]));
    let mut bench = bench.env("TMPDIR", scratch.dir()).stdout(full()).stderr(full()).spawn().unwrap();
    while !fio_runs_below(&scratch.dir().display().to_string()) {
        thread::sleep(Duration::from_millis(20));
    }
    super::interrupted::signal(&bench, rustix::process::Signal::HUP);
    assert_eq!(bench.wait().unwrap().code(), Some(130));
}

/// Whether an fio with this directory in its command line is running.
pub(crate) fn fio_runs_below(directory: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("fio\0") && line.contains(directory)
    })
}

#[test]
fn fio_ends_with_a_bench_that_is_killed() {
    need_tools!("fio", "setpriv");
    let scratch = Scratch::new();
    let disk = format!("a={}", scratch.random("disk", 4 * MIB, 1).display());
    let arguments = ["--size", "2M", "--runtime", "1000", "--target", &disk].map(str::to_owned);
    let mut bench = command(&arguments).env("TMPDIR", scratch.dir()).spawn().unwrap();
    let directory = scratch.dir().display().to_string();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fio_runs_below(&directory) {
        assert!(Instant::now() < deadline, "fio was never started");
        thread::sleep(Duration::from_millis(20));
    }
    bench.kill().unwrap();
    bench.wait().unwrap();
    let killed = Instant::now();
    while fio_runs_below(&directory) {
        assert!(killed.elapsed() < Duration::from_secs(60), "fio goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

fn before_a_server(scratch: &Scratch, server: &Server, runtime: &str) -> Command {
    let cache = scratch.path("cache");
    let target = format!("k=cache:{},size:16M,origin:{}", cache.display(), server.uri().display());
    let arguments = ["--size", "8M", "--runtime", runtime, "--phases", "empty", "--rounds", "1"];
    let more = ["--noise-floor", "computed", "--target", &target];
    let words: Vec<String> = arguments.iter().chain(&more).map(|word| (*word).to_owned()).collect();
    let mut bench = command(&words);
    bench.env("TMPDIR", scratch.dir()).stdout(Stdio::null()).stderr(Stdio::piped());
    bench
}

fn bereft_of_its_origin(scratch: &Scratch) -> Child {
    let disk = scratch.random("disk", 32 * MIB, 1);
    let mut server = Server::start(scratch, &disk, &["--filter=delay"], &["rdelay=20ms"]);
    let bench = before_a_server(scratch, &server, "3").spawn().unwrap();
    while !fio_runs_below(&scratch.dir().display().to_string()) {
        thread::sleep(Duration::from_millis(20));
    }
    server.kill();
    bench
}

#[test]
fn an_origin_that_stays_away_ends_the_bench() {
    need_kickcache!();
    need_tools!("fio", "nbdkit");
    let scratch = Scratch::new();
    let bench = bereft_of_its_origin(&scratch);
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let said = complaint(&output);
    assert!(said.contains("has been unreachable for ") && said.contains("origin.sock"), "{said}");
    assert!(!scratch.path("cache").exists(), "what was made for the bench is gone");
}

#[test]
fn a_signal_ends_a_bench_that_waits_for_its_origin() {
    need_kickcache!();
    need_tools!("fio", "nbdkit");
    let scratch = Scratch::new();
    let bench = bereft_of_its_origin(&scratch);
    super::interrupted::signal(&bench, rustix::process::Signal::INT);
    // Without the signal the absence of the origin would end the bench, with another code.
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", complaint(&output));
    assert!(!scratch.path("cache").exists(), "what was made for the bench is gone");
}
