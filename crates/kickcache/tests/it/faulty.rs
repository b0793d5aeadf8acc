//! Disks that fail on demand below a daemon: faultdisk serves them, nbdfuse makes them files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::daemon::{Spec, guarded};
use crate::fuse::Fuse;
use crate::scratch::Scratch;
use crate::tools;

pub(crate) const FAULTDISK: &str = env!("CARGO_BIN_EXE_faultdisk");

/// Disks that fail on demand: a cache device and an origin of this many bytes, or any disks; skips the test
/// if there is no FUSE.
#[macro_export]
macro_rules! faulty_disks {
    ($scratch:expr, $cache:expr, $origin:expr) => {
        $crate::faulty_disks!($scratch, &[("cache", $cache), ("origin", $origin)])
    };
    ($scratch:expr, $disks:expr) => {{
        if let Some(why) = $crate::fuse::missing() {
            $crate::skip!("{why}");
        }
        match $crate::faulty::FaultyDisks::start($scratch, $disks) {
            Ok(disks) => disks,
            Err(why) => $crate::skip!("{why}"),
        }
    }};
}

pub(crate) struct FaultyDisks {
    fuses: Vec<Fuse>,
    control: PathBuf,
    recording: Recording,
    server: Child,
}

/// The log of disks, which outlives them.
#[derive(Clone)]
pub(crate) struct Recording {
    log: PathBuf,
    disks: Vec<NewDisk>,
}

/// A name, and a size in bytes.
pub(crate) type NewDisk = (&'static str, u64);

/// The part of the unflushed requests that a power cut loses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    All,
    /// A seed decides which unflushed requests are lost, or lost in part.
    Seed(u64),
}

impl FaultyDisks {
    /// Disks of zeroes, each at the path of its name.
    pub(crate) fn start(scratch: &Scratch, disks: &[NewDisk]) -> Result<FaultyDisks, String> {
        let files =
            disks.iter().map(|(name, size)| scratch.sparse(&format!("{name} below"), *size)).collect();
        let path = |name: &str| scratch.path(name);
        let (socket, control, log) = (path("fault.sock"), path("fault.control"), path("fault.log"));
        let recording = Recording { log, disks: disks.to_vec() };
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        for (flag, value) in [("--socket", &socket), ("--control", &control), ("--log", &recording.log)] {
            arguments.extend([flag.into(), value.into()]);
        }
        arguments.extend(recording.arguments(files));
        let output = File::create(path("fault.out")).unwrap();
        let mut command = guarded(FAULTDISK, arguments);
        let mut server = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let start = Instant::now();
        while UnixStream::connect(&control).is_err() || !socket.exists() {
            assert!(server.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(10));
        }
        let mut faulty = FaultyDisks { fuses: Vec::new(), control, recording, server };
        for (name, _) in disks {
            let uri = format!("nbd+unix:///{name}?socket={}", socket.display());
            faulty.fuses.push(Fuse::mount(scratch, name, &uri)?);
        }
        Ok(faulty)
    }

    pub(crate) fn spec(&self, scratch: &Scratch, mode: &'static str) -> Spec {
        let mut spec = Spec::new(scratch, self.fuse("origin").file(), mode, "8M");
        spec.cache = self.fuse("cache").file().into();
        spec
    }

    fn fuse(&self, name: &str) -> &Fuse {
        let index = self.recording.disks.iter().position(|(known, _)| *known == name).unwrap();
        &self.fuses[index]
    }

    pub(crate) fn file(&self, name: &str) -> &Path {
        self.fuse(name).file()
    }

    /// Ends the disks, which must not be in use any more.
    pub(crate) fn end(self) -> Recording {
        self.position();
        self.recording.clone()
    }

    pub(crate) fn tell(&self, words: &str) -> String {
        let mut stream = UnixStream::connect(&self.control).unwrap();
        writeln!(stream, "{words}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(!answer.starts_with("error") && !answer.is_empty(), "{words}: {answer}");
        answer.trim_end().to_owned()
    }

    /// No request of the kernel to the origin is answered until this is dropped.
    pub(crate) fn freeze_origin(&self) -> Frozen<'_> {
        let origin = self.fuse("origin");
        origin.signal(Signal::STOP);
        Frozen(origin)
    }

    /// The number of records in the log.
    pub(crate) fn position(&self) -> u64 {
        self.tell("position").parse().unwrap()
    }

    /// The worst state after a power cut at this record: without any unflushed write.
    pub(crate) fn cut_unflushed(&self, scratch: &Scratch, until: u64) -> [PathBuf; 2] {
        self.cut_by(scratch, until, Loss::All)
    }

    /// A possible state of cache and origin after a power cut at this record.
    pub(crate) fn cut(&self, scratch: &Scratch, until: u64, seed: u64) -> [PathBuf; 2] {
        self.cut_by(scratch, until, Loss::Seed(seed))
    }

    fn cut_by(&self, scratch: &Scratch, until: u64, loss: Loss) -> [PathBuf; 2] {
        let files = ["cache cut", "origin cut"].map(|name| scratch.path(name));
        self.recording.replay(until, loss, files.to_vec());
        files
    }
}

impl Recording {
    /// Makes files in a possible state of the disks after a power cut at this record.
    pub(crate) fn replay(&self, until: u64, loss: Loss, files: Vec<PathBuf>) {
        for (file, (_, size)) in files.iter().zip(&self.disks) {
            File::create(file).unwrap().set_len(*size).unwrap();
        }
        let mut arguments: Vec<OsString> = vec!["replay".into(), "--log".into(), self.log.clone().into()];
        arguments.extend(["--until".into(), until.to_string().into(), "--seed".into()]);
        match loss {
            Loss::All => arguments.extend(["0".into(), "--lose-unflushed".into()]),
            Loss::Seed(seed) => arguments.push(seed.to_string().into()),
        }
        arguments.extend(self.arguments(files));
        tools::run(FAULTDISK, arguments);
    }

    fn arguments(&self, files: Vec<PathBuf>) -> Vec<OsString> {
        let argument = |((name, _), file): (&NewDisk, PathBuf)| {
            let mut argument = OsString::from(format!("{name}="));
            argument.push(file);
            argument
        };
        self.disks.iter().zip(files).map(argument).collect()
    }
}

/// Ends all faults when it is dropped: a process cannot be killed while it waits for a disk that hangs.
pub(crate) struct Release<'a>(pub(crate) &'a FaultyDisks);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.tell("clear");
    }
}

pub(crate) struct Frozen<'a>(&'a Fuse);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

impl Drop for FaultyDisks {
    fn drop(&mut self) {
        // The mounts are removed when their server has ended; an earlier unmount would wait.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
