//! Executables that hang, and signals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{command, complaint, small};
use crate::need_tools;
use crate::scratch::{MIB, Scratch};

pub(super) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// `cases` are lines of a shell's `case`; `noted` is a file for their use.
fn executable(scratch: &Scratch, cases: &str) -> PathBuf {
    let disk = scratch.random("disk", 4 * MIB, 1);
    let path = scratch.path("executable");
    let (disk, noted) = (disk.display(), scratch.path("noted"));
    let script = format!(
        "#!/bin/sh\nnoted={}\ncase $1 in {cases} up|down) ;; path) echo {disk} ;; *) exit 64 ;; esac\n",
        noted.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn bench(executable: &Path) -> Command {
    let target = format!("c=cmd:{}", executable.display());
    let more = ["--target", &target, "--phases", "empty", "--rounds", "1", "--noise-floor", "computed"];
    let mut bench = command(&small(&more));
    bench.stdout(Stdio::null()).stderr(Stdio::piped());
    bench
}

fn noted(scratch: &Scratch) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(scratch.path("noted")).unwrap_or_default();
        if let Ok(pid) = text.trim().parse() {
            return pid;
        }
        assert!(Instant::now() < deadline, "it was never run");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A zombie is not alive.
fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits for less long than the executables hang.
fn end_of(bench: &mut Child) {
    let begun = Instant::now();
    while bench.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

fn end(cases: &str) -> String {
    let scratch = Scratch::new();
    let mut child = bench(&executable(&scratch, cases)).spawn().unwrap();
    let hanging = noted(&scratch);
    signal(&child, Signal::INT);
    end_of(&mut child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", complaint(&output));
    assert!(!is_alive(hanging), "it goes on");
    complaint(&output)
}

#[test]
fn a_signal_ends_a_hanging_executable_with_its_children() {
    need_tools!("fio");
    end("up) sleep 1000 & echo $! > $noted; trap '' TERM; wait; sleep 1000 ;;");
}

#[test]
fn a_signal_leaves_some_time_to_down() {
    need_tools!("fio");
    let said = end("down) sleep 1000 & echo $! > $noted; wait ;;");
    assert!(said.contains("waiting up to 15 s for `") && said.contains(" down` did not end"), "{said}");
}

#[test]
fn background_processes_of_an_executable_do_not_block_the_bench() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let cases = "up) sleep 1000 & echo $! > $noted ;; down) kill $(cat $noted) ;;";
    let mut child = bench(&executable(&scratch, cases)).spawn().unwrap();
    end_of(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(!is_alive(noted(&scratch)), "down has ended it");
}
