//! One daemon under test; it ends with the test.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Client, greet};
use crate::scratch::{Scratch, state_dir};
use crate::tools;

pub(crate) const KICKCACHE: &str = env!("CARGO_BIN_EXE_kickcache");
/// A start waits 30 s for a device that does not respond.
const START_TIME_MAX: Duration = Duration::from_secs(180);
const STOP_TIME_MAX: Duration = Duration::from_secs(60);

/// Whether another server replaces kickcache: then only tests that hold for every disk can run.
pub(crate) fn is_stand_in() -> bool {
    std::env::var_os("KICKCACHE_IT_SERVER").is_some_and(|server| server == "qemu-nbd")
}

#[macro_export]
macro_rules! need_kickcache {
    () => {
        if $crate::daemon::is_stand_in() {
            $crate::skip!("the stand-in has no cache");
        }
    };
}

#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) dir: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) cache_size: &'static str,
    pub(crate) origin: PathBuf,
    pub(crate) mode: &'static str,
    pub(crate) extra: Vec<OsString>,
    pub(crate) nbd: Option<PathBuf>,
}

pub(crate) const VOLUME: &str = "v";

impl Spec {
    pub(crate) fn new(
        scratch: &Scratch,
        origin: &Path,
        mode: &'static str,
        cache_size: &'static str,
    ) -> Spec {
        let dir = scratch.dir().to_owned();
        Spec {
            cache: dir.join("cache"),
            dir,
            cache_size,
            origin: origin.into(),
            mode,
            extra: Vec::new(),
            nbd: None,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.nbd.clone().unwrap_or_else(|| self.dir.join("nbd.sock"))
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("daemon.log")
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--cache".into(), self.cache.clone().into()];
        let mut add = |flag: &str, value: OsString| arguments.extend([OsString::from(flag), value]);
        add("--size", self.cache_size.into());
        add("--origin", self.origin.clone().into());
        add("--name", VOLUME.into());
        add("--mode", self.mode.into());
        add("--nbd", unix_address(&self.socket()));
        add("--control", self.control().into());
        if !self.extra.iter().any(|word| word == "--idle-after") {
            // Dirty blocks stay dirty on a slow machine, unless a test is about idle volumes.
            add("--idle-after", "24h".into());
        }
        arguments.extend(self.extra.iter().cloned());
        arguments
    }

    pub(crate) fn command(&self) -> Command {
        if !is_stand_in() {
            return guarded(KICKCACHE, self.arguments());
        }
        let _ = fs::remove_file(self.socket());
        let flags = [
            "-t",
            "-x",
            VOLUME,
            "-e",
            "64",
            "-f",
            "raw",
            "--cache=none",
            "--aio=io_uring",
            "--discard=unmap",
            "-k",
        ];
        let mut arguments: Vec<OsString> = flags.map(OsString::from).to_vec();
        arguments.extend([self.socket().into(), self.origin.clone().into()]);
        guarded("qemu-nbd", arguments)
    }

    pub(crate) fn try_control(&self, arguments: &[&str]) -> Output {
        let control = self.control();
        tools::output(KICKCACHE, [arguments, &["--control", control.to_str().unwrap()]].concat())
    }

    /// Returns the standard error.
    pub(crate) fn refusal(&self, arguments: &[&str], code: i32) -> String {
        let output = self.try_control(arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn start(&self) -> Daemon {
        Daemon::start(self.command(), self.clone(), &[self.socket()])
    }

    pub(crate) fn try_start(&self) -> Option<Daemon> {
        Daemon::try_start(self.command(), self.clone())
    }
}

/// `unix:PATH`
pub(crate) fn unix_address(path: &Path) -> OsString {
    let mut address = OsString::from("unix:");
    address.push(path);
    address
}

/// A program that dies with the test that started it.
pub(crate) fn guarded(program: &str, arguments: Vec<OsString>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments).stdin(Stdio::null());
    command.env("KICKCACHE_STATE", state_dir());
    command
}

/// Starts of daemons that printed their addresses into the log.
fn starts_printed(spec: &Spec) -> usize {
    let log = fs::read_to_string(spec.log()).unwrap_or_default();
    log.lines().filter(|line| line.starts_with("control socket: ")).count()
}

/// A running daemon, which is killed when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) spec: Spec,
}

impl Daemon {
    /// Waits until servers listen on all `sockets`.
    pub(crate) fn start(mut command: Command, spec: Spec, sockets: &[PathBuf]) -> Daemon {
        let log = File::options().create(true).append(true).open(spec.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let starts_before = starts_printed(&spec);
        let mut daemon = Daemon::start_as_it_is(command, spec, sockets);
        if !sockets.is_empty() && !is_stand_in() {
            daemon.wait_for_start_output(starts_before);
        }
        daemon
    }

    /// Clients are served a moment before the addresses are printed.
    fn wait_for_start_output(&mut self, starts_before: usize) {
        let start = Instant::now();
        while starts_printed(&self.spec) == starts_before && self.is_alive() {
            assert!(start.elapsed() < START_TIME_MAX, "no addresses are printed:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The command keeps its standard output and error.
    pub(crate) fn start_as_it_is(mut command: Command, spec: Spec, sockets: &[PathBuf]) -> Daemon {
        let mut daemon = Daemon { child: command.spawn().unwrap(), spec };
        for socket in sockets {
            daemon.wait_for(socket);
        }
        daemon
    }

    /// A command that refuses to serve must end with an error and without a panic.
    pub(crate) fn try_start(mut command: Command, spec: Spec) -> Option<Daemon> {
        let log = File::create(spec.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut daemon = Daemon { child: command.spawn().unwrap(), spec };
        let socket = daemon.spec.socket();
        match daemon.poll_for(&socket) {
            None => Some(daemon),
            Some(status) => {
                assert!(
                    !status.success() && !daemon.log().contains("panicked at"),
                    "{status}: {}",
                    daemon.log()
                );
                None
            }
        }
    }

    pub(crate) fn wait_for(&mut self, socket: &Path) {
        if let Some(status) = self.poll_for(socket) {
            panic!("the daemon ended during its start ({status}):\n{}", self.log());
        }
    }

    /// Waits until a server listens, or the daemon has ended.
    fn poll_for(&mut self, socket: &Path) -> Option<ExitStatus> {
        let start = Instant::now();
        // A greeting, not just a connection: the socket of a killed process takes those for a moment.
        while greet(socket).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            assert!(
                start.elapsed() < START_TIME_MAX,
                "nobody listens on {}:\n{}",
                socket.display(),
                self.log()
            );
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub(crate) fn connect(&self) -> Client {
        let client = Client::connect(&self.spec.socket(), VOLUME);
        client.unwrap_or_else(|error| panic!("connect: {error}\n{}", self.log()))
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///{VOLUME}?socket={}", self.spec.socket().display())
    }

    /// The output of the daemon, over all its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.spec.log()).unwrap_or_default()
    }

    /// A line with all of these parts.
    pub(crate) fn wait_for_log(&self, parts: &[&str]) {
        let start = Instant::now();
        while !self.log().lines().any(|line| parts.iter().all(|part| line.contains(part))) {
            assert!(start.elapsed() < Duration::from_secs(60), "no line with {parts:?}: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn signal_if_alive(&mut self, signal: Signal) {
        if self.is_alive() {
            self.signal(signal);
        }
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < STOP_TIME_MAX, "the daemon does not stop:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The daemon must end without an error.
    pub(crate) fn stop(mut self) -> Spec {
        self.signal(Signal::TERM);
        let status = self.wait();
        self.check_end(status);
        self.spec.clone()
    }

    pub(crate) fn check_end(&self, status: ExitStatus) {
        assert!(status.success(), "the daemon stopped with {status}:\n{}", self.log());
        assert!(!self.log().contains("panicked at"), "the daemon panicked:\n{}", self.log());
    }

    pub(crate) fn kill(mut self) -> Spec {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.spec.clone()
    }

    pub(crate) fn control(&self, arguments: &[&str]) -> String {
        let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        all.extend(["--control".into(), self.spec.control().into()]);
        tools::run(KICKCACHE, all)
    }

    pub(crate) fn status(&self) -> Value {
        let text = self.control(&["status", "--json"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("status is no JSON: {error}\n{text}"))
    }

    pub(crate) fn drain(&self) {
        self.control(&["drain", VOLUME, "--wait"]);
    }

    /// A number of a volume by its name, at any depth of the status.
    pub(crate) fn volume_count(&self, name: &str) -> u64 {
        let status = self.status();
        let volumes = find(&status, "volumes").unwrap_or_else(|| panic!("no `volumes` in {status}"));
        let found = find(volumes, name).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("no number `{name}` in {volumes}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the daemon's output:\n{}", self.log());
        }
    }
}

/// Depth first.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let children: Vec<&Value> = match value {
        Value::Object(map) => match map.get(name) {
            Some(found) => return Some(found),
            None => map.values().collect(),
        },
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    children.into_iter().find_map(|child| find(child, name))
}
