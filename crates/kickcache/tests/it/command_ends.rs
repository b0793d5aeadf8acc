//! Ends of interactive or long-running commands.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Winsize, tcflow, tcsetwinsize};

use crate::bench::ends::fio_runs_below;
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::nbd_server::Server;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

/// For the end of a command after its event.
const LIMIT: Duration = Duration::from_secs(120);
const INTERRUPTED: i32 = 130;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Signal(Signal),
    Terminal,
    Pipe,
}

const ENDS: [End; 4] = [End::Signal(Signal::TERM), End::Signal(Signal::HUP), End::Terminal, End::Pipe];

/// The sign that a command runs.
#[derive(Clone, Copy)]
enum Sign<'a> {
    /// The command prints this text on a terminal.
    Text(&'a str),
    File(&'a Path),
    /// fio runs below a directory.
    Fio(&'a Path),
}

/// A command, and the user's side of its output.
struct Running {
    child: Child,
    output: OwnedFd,
}

impl Running {
    /// On a terminal that is not its controlling terminal, so that closing it sends no signal.
    fn on_terminal(arguments: &[String], scratch: &Scratch) -> Running {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || Stdio::from(rustix::fs::open(&name, flags, Mode::empty()).unwrap());
        let mut command = guarded(KICKCACHE, arguments.iter().map(Into::into).collect());
        command.env("TERM", "xterm").env("TMPDIR", scratch.dir());
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        Running { child, output: terminal }
    }

    fn in_pipe(arguments: &[String], scratch: &Scratch) -> Running {
        let mut command = guarded(KICKCACHE, arguments.iter().map(Into::into).collect());
        command.env("TMPDIR", scratch.dir()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap().into();
        Running { child, output }
    }

    fn wait_for(&mut self, sign: Sign<'_>, end: End) {
        let begun = Instant::now();
        let is_here = || match sign {
            Sign::Text(_) => true,
            Sign::File(path) => path.exists(),
            Sign::Fio(path) => fio_runs_below(&path.display().to_string()),
        };
        while !is_here() {
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended before");
            assert!(begun.elapsed() < LIMIT, "it does not begin");
            thread::sleep(Duration::from_millis(10));
        }
        let Sign::Text(text) = sign else { return };
        if end == End::Pipe {
            return;
        }
        let (mut seen, mut bytes) = (String::new(), [0; 4096]);
        let mut output = File::from(self.output.try_clone().unwrap());
        while !seen.contains(text) {
            let limit = Timespec::try_from(LIMIT).unwrap();
            let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&limit)).unwrap();
            assert!(ready > 0, "it does not print `{text}`: {seen}");
            let count = output.read(&mut bytes).unwrap();
            seen += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    fn end(self, end: End) -> ExitStatus {
        let Running { mut child, output } = self;
        let mut kept = None;
        match end {
            End::Signal(signal) => {
                kill_process(Pid::from_child(&child), signal).unwrap();
                kept = Some(output);
            }
            End::Terminal | End::Pipe => drop(output),
        }
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                drop(kept);
                return status;
            }
            if begun.elapsed() > LIMIT {
                child.kill().unwrap();
                panic!("it goes on after {end:?}");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn interrupt(arguments: &[String], scratch: &Scratch, sign: Sign<'_>, end: End) {
    let mut running = match end {
        End::Pipe => Running::in_pipe(arguments, scratch),
        End::Signal(_) | End::Terminal => Running::on_terminal(arguments, scratch),
    };
    running.wait_for(sign, end);
    let status = running.end(end);
    let by_signal = match end {
        End::Signal(signal) => status.signal() == Some(signal.as_raw()),
        End::Terminal | End::Pipe => false,
    };
    let code = status.code();
    // `record` fails on a closed terminal, which takes no summary.
    let is_fine = match arguments[0].as_str() {
        "judge" => matches!(code, Some(128 | 129 | 143)),
        "record" => code == Some(i32::from(end == End::Terminal)),
        "status" => code == Some(0),
        _ => code == Some(INTERRUPTED),
    };
    assert!(by_signal || is_fine, "{arguments:?}, {end:?}: {status}");
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

struct DaemonSetup {
    daemon: Daemon,
    scratch: Scratch,
}

impl DaemonSetup {
    fn new() -> DaemonSetup {
        let scratch = Scratch::new();
        let origin = scratch.sparse("origin", 16 * MIB);
        let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
        DaemonSetup { daemon, scratch }
    }

    fn words(&self, command: &[&str]) -> Vec<String> {
        let control = self.daemon.spec.control();
        words(&[command, &["--control", control.to_str().unwrap()]].concat())
    }
}

#[test]
fn top_ends_with_its_terminal_and_by_a_signal() {
    need_kickcache!();
    let DaemonSetup { daemon, scratch } = &DaemonSetup::new();
    let arguments = words(&["top", "--every", "86400", "--control", daemon.spec.control().to_str().unwrap()]);
    for end in [End::Signal(Signal::TERM), End::Signal(Signal::HUP), End::Terminal] {
        interrupt(&arguments, scratch, Sign::Text("CACHE DEVICE"), end);
    }
}

#[test]
fn top_ends_by_a_signal_while_its_terminal_is_stopped() {
    need_kickcache!();
    let DaemonSetup { daemon, scratch } = &DaemonSetup::new();
    let arguments = words(&["top", "--every", "1", "--control", daemon.spec.control().to_str().unwrap()]);
    let mut running = Running::on_terminal(&arguments, scratch);
    running.wait_for(Sign::Text("CACHE DEVICE"), End::Terminal);
    let name = ptsname(&running.output, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    tcflow(&terminal, Action::OOff).unwrap();
    // Writes of `top` block.
    assert_eq!(running.end(End::Signal(Signal::TERM)).code(), Some(INTERRUPTED));
}

#[test]
fn a_watched_status_ends_with_its_reader() {
    need_kickcache!();
    let served = DaemonSetup::new();
    for end in ENDS {
        interrupt(
            &served.words(&["status", "--watch", "86400"]),
            &served.scratch,
            Sign::Text("write-back"),
            end,
        );
    }
}

#[test]
fn a_recording_ends_with_its_reader_and_is_whole() {
    need_kickcache!();
    let served = DaemonSetup::new();
    for (number, end) in ENDS.into_iter().enumerate() {
        let file = served.scratch.path(&format!("recording-{number}"));
        let arguments = served.words(&["record", VOLUME, "-o", file.to_str().unwrap()]);
        interrupt(&arguments, &served.scratch, Sign::File(&file), end);
    }
}

#[test]
fn a_recording_of_a_stopped_daemon_ends_by_a_signal() {
    need_kickcache!();
    let served = DaemonSetup::new();
    let file = served.scratch.path("recording");
    let mut running = Running::on_terminal(
        &served.words(&["record", VOLUME, "-o", file.to_str().unwrap()]),
        &served.scratch,
    );
    running.wait_for(Sign::File(&file), End::Terminal);
    served.daemon.signal(Signal::STOP);
    running.end(End::Signal(Signal::TERM));
    served.daemon.signal(Signal::CONT);
}

#[test]
fn a_drain_is_left_to_its_daemon() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::start(&scratch, &scratch.sparse("disk", 16 * MIB), &[], &[]);
    let daemon = Spec::new(&scratch, &server.uri(), "write-back", "16M").start();
    server.freeze();
    daemon.connect().write(0, &[7; 4096]);
    let control = daemon.spec.control();
    let arguments = words(&["drain", VOLUME, "--wait", "--control", control.to_str().unwrap()]);
    for end in ENDS {
        interrupt(&arguments, &scratch, Sign::Text("to write back"), end);
    }
    server.signal(Signal::CONT);
    daemon.drain();
}

#[test]
fn a_replacement_is_left_to_its_daemon() {
    need_kickcache!();
    let served = DaemonSetup::new();
    let with = served.scratch.path("other");
    for end in ENDS {
        // The daemon does not respond: the command waits for it.
        served.daemon.signal(Signal::STOP);
        let arguments = served.words(&["replace", "--with", with.to_str().unwrap()]);
        interrupt(&arguments, &served.scratch, Sign::File(Path::new("/")), end);
        served.daemon.signal(Signal::CONT);
    }
}

#[test]
fn a_bench_ends_with_its_reader() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let disk = format!("a={}", scratch.random("disk", 4 * MIB, 1).display());
    for end in ENDS {
        let arguments = words(&["bench", "--size", "2M", "--runtime", "86400", "--target", &disk]);
        interrupt(&arguments, &scratch, Sign::Fio(scratch.dir()), end);
        assert!(!fio_runs_below(&scratch.dir().display().to_string()), "fio goes on");
    }
}

#[test]
fn a_judgement_and_its_command_end_with_the_reader() {
    let scratch = Scratch::new();
    let begun = |end| scratch.path(&format!("begun-{end:?}"));
    for end in ENDS {
        let begun: PathBuf = begun(end);
        let command = format!("trap '' TERM; touch '{}'; sleep 86400 & wait; wait", begun.display());
        let arguments =
            words(&["judge", "--metric", "time", "--against", &command, "--", "sh", "-c", &command]);
        interrupt(&arguments, &scratch, Sign::File(&begun), end);
    }
}

#[test]
fn a_simulation_ends_with_its_reader() {
    let scratch = Scratch::new();
    let job = scratch.path("job.fio");
    fs::write(&job, "[reads]\nrw=randread\nbs=4k\nsize=64G\niodepth=32\nruntime=864000\ntime_based\n")
        .unwrap();
    for end in ENDS {
        let arguments =
            words(&["simulate", "compare", "--seconds", "864000", "--job", job.to_str().unwrap()]);
        interrupt(&arguments, &scratch, Sign::File(&job), end);
    }
}
