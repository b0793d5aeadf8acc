//! Runs a command to its end, with its output and its times.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kickcache_command::interrupt::Interrupt;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use crate::judge::command::CommandLine;
use crate::judge::failure::RunFailure;

/// How long the processes that a command leaves behind may take to end after SIGTERM; then they get SIGKILL.
const END_MAX: Duration = Duration::from_secs(5);
/// As [`END_MAX`], for the command and its processes, once this program is interrupted.
const INTERRUPTED_END_MAX: Duration = Duration::from_millis(150);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The interval of checks whether this program is interrupted, or the command prints too much.
const OVERSEE_EVERY: Duration = Duration::from_millis(100);
/// Exit codes of a shell when its child died by a signal.
const SIGNALLED: RangeInclusive<i32> = 129..=192;
/// The most bytes that a command may print to standard output, and to standard error.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub output: String,
    pub wall: Duration,
    pub cpu: Duration,
}

/// Runs a command, in a process group of its own, with empty standard input.
///
/// # Errors
/// If it cannot be started, dies, fails or prints more than [`OUTPUT_BYTES_MAX`], or a signal arrives.
pub(crate) fn run(command: &CommandLine, interrupt: &Interrupt) -> Result<Run, RunFailure> {
    check_interrupt(interrupt)?;
    let system = |error: &dyn std::fmt::Display| RunFailure::Start(error.to_string());
    let (mut output, mut complaints) = (temporary()?, temporary()?);
    let stdio = |file: &File| file.try_clone().map(Stdio::from).map_err(|error| system(&error));
    let mut process = command.process();
    process.stdin(Stdio::null()).stdout(stdio(&output)?).stderr(stdio(&complaints)?).process_group(0);
    let cpu_before = cpu_of_children();
    let begun = Instant::now();
    let mut child = process.spawn().map_err(|error| system(&error))?;
    let status = wait(&mut child, interrupt, [&output, &complaints]).map_err(|error| system(&error))?;
    let wall = begun.elapsed();
    let cpu = cpu_of_children().saturating_sub(cpu_before);
    end_group(Pid::from_child(&child), interrupt);
    check_interrupt(interrupt)?;
    if [&output, &complaints].into_iter().any(prints_too_much) {
        let what = format!("it printed more than {} MiB", OUTPUT_BYTES_MAX >> 20);
        return Err(RunFailure::Failed(what));
    }
    check(status, &last_line(&mut complaints))?;
    let output = text(&mut output).map_err(RunFailure::Failed)?;
    Ok(Run { output, wall, cpu })
}

fn temporary() -> Result<File, RunFailure> {
    let told = |error| {
        let folder = std::env::temp_dir();
        RunFailure::Start(format!("a file for its output cannot be created in {}: {error}", folder.display()))
    };
    tempfile::tempfile().map_err(told)
}

/// Waits for a command; ends it after a signal, and if it prints more than [`OUTPUT_BYTES_MAX`]. Processes
/// that it leaves behind get SIGTERM.
fn wait(child: &mut Child, interrupt: &Interrupt, printed: [&File; 2]) -> std::io::Result<ExitStatus> {
    let group = Pid::from_child(child);
    interrupt.watch(group);
    // The process is not reaped yet, so that its id is not reused while a signal may still be sent to it.
    let has_ended = AtomicBool::new(false);
    let waited = thread::scope(|scope| {
        let overseer = scope.spawn(|| oversee(group, interrupt, printed, &has_ended));
        let waited = loop {
            match waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        has_ended.store(true, Ordering::Release);
        overseer.thread().unpark();
        waited
    });
    interrupt.unwatch();
    waited?;
    let _ = kill_process_group(group, Signal::TERM);
    child.wait()
}

/// Kills a command that prints too much, or continues for [`INTERRUPTED_END_MAX`] after this program is
/// interrupted.
fn oversee(group: Pid, interrupt: &Interrupt, printed: [&File; 2], has_ended: &AtomicBool) {
    let mut asked: Option<Instant> = None;
    while !has_ended.load(Ordering::Acquire) {
        thread::park_timeout(OVERSEE_EVERY);
        if interrupt.signal().is_some() {
            asked.get_or_insert_with(Instant::now);
        }
        if asked.is_some_and(|asked| asked.elapsed() > INTERRUPTED_END_MAX)
            || printed.into_iter().any(prints_too_much)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn prints_too_much(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.len() > OUTPUT_BYTES_MAX)
}

fn check_interrupt(interrupt: &Interrupt) -> Result<(), RunFailure> {
    interrupt.signal().map_or(Ok(()), |signal| Err(RunFailure::Interrupted(signal)))
}

/// Ends the remaining processes of a group after SIGTERM.
fn end_group(group: Pid, interrupt: &Interrupt) {
    let begun = Instant::now();
    while test_kill_process_group(group) != Err(Errno::SRCH) {
        let patience = if interrupt.signal().is_some() { INTERRUPTED_END_MAX } else { END_MAX };
        if begun.elapsed() > patience {
            let _ = kill_process_group(group, Signal::KILL);
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn cpu_of_children() -> Duration {
    let micros = |time: TimeVal| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        Duration::from_micros(seconds * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0))
    };
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(Duration::ZERO, |usage| micros(usage.user_time()) + micros(usage.system_time()))
}

/// A shell reports by 126 or 127 that its child cannot be started, and by 129 to 192 that its child died by a signal.
fn check(status: ExitStatus, complaint: &str) -> Result<(), RunFailure> {
    let said = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
    let died =
        |signal: i32| RunFailure::Signal { signal: u8::try_from(signal).unwrap_or(0), what: said.clone() };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code @ (126 | 127)), _) => Err(RunFailure::Start(format!("exit code {code}{said}"))),
        (Some(code), _) if SIGNALLED.contains(&code) => Err(died(code - 128)),
        (Some(code), _) => Err(RunFailure::Failed(format!("exit code {code}{said}"))),
        (None, signal) => Err(died(signal.unwrap_or(0))),
    }
}

fn text(file: &mut File) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last non-empty line of a file, cut to 300 characters.
fn last_line(file: &mut File) -> String {
    let text = text(file).unwrap_or_default();
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(300).collect()
}
