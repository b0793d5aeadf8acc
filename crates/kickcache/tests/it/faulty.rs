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

const FAULTDISK: &str = env!("CARGO_BIN_EXE_faultdisk");

/// Disks that fail on demand, of this many bytes; leaves the test where there is no FUSE.
#[macro_export]
macro_rules! faulty_disks {
    ($scratch:expr, $cache:expr, $origin:expr) => {{
        if let Some(why) = $crate::fuse::missing() {
            $crate::skip!("{why}");
        }
        match $crate::faulty::FaultyDisks::start($scratch, $cache, $origin) {
            Ok(disks) => disks,
            Err(why) => $crate::skip!("{why}"),
        }
    }};
}

/// A cache device and an origin.
pub(crate) struct FaultyDisks {
    cache: Fuse,
    origin: Fuse,
    control: PathBuf,
    log: PathBuf,
    sizes: [u64; 2],
    server: Child,
}

impl FaultyDisks {
    /// Two disks of zeroes.
    pub(crate) fn start(scratch: &Scratch, cache: u64, origin: u64) -> Result<FaultyDisks, String> {
        let files = [scratch.sparse("cache below", cache), scratch.sparse("origin below", origin)];
        let path = |name: &str| scratch.path(name);
        let (socket, control, log) = (path("fault.sock"), path("fault.control"), path("fault.log"));
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        for (flag, value) in [("--socket", &socket), ("--control", &control), ("--log", &log)] {
            arguments.extend([flag.into(), value.into()]);
        }
        arguments.extend(disk_arguments(&files));
        let output = File::create(path("fault.out")).unwrap();
        let mut command = guarded(FAULTDISK, arguments);
        let mut server = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let start = Instant::now();
        while UnixStream::connect(&control).is_err() || !socket.exists() {
            assert!(server.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(10));
        }
        let fuse = |name: &str| {
            let uri = format!("nbd+unix:///{name}?socket={}", socket.display());
            Fuse::mount(scratch, name, &uri)
        };
        let mounted = fuse("cache").and_then(|cache| Ok((cache, fuse("origin")?)));
        match mounted {
            Ok((cache, origin)) => Ok(FaultyDisks {
                cache,
                origin,
                control,
                log,
                sizes: [files_size(&files[0]), files_size(&files[1])],
                server,
            }),
            Err(why) => {
                let _ = server.kill();
                let _ = server.wait();
                Err(why)
            }
        }
    }

    /// A daemon on these disks.
    pub(crate) fn spec(&self, scratch: &Scratch, mode: &'static str) -> Spec {
        let mut spec = Spec::new(scratch, self.origin.file(), mode, "8M");
        spec.cache = self.cache.file().into();
        spec
    }

    /// Says something to faultdisk and gives its answer.
    pub(crate) fn tell(&self, words: &str) -> String {
        let mut stream = UnixStream::connect(&self.control).unwrap();
        writeln!(stream, "{words}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(!answer.starts_with("error") && !answer.is_empty(), "{words}: {answer}");
        answer.trim_end().to_owned()
    }

    /// Stops the program that answers for the origin, for whatever the kernel asks, until this is dropped.
    pub(crate) fn freeze_origin(&self) -> Frozen<'_> {
        self.origin.signal(Signal::STOP);
        Frozen(&self.origin)
    }

    /// How many records the log has.
    pub(crate) fn position(&self) -> u64 {
        self.tell("position").parse().unwrap()
    }

    /// Files as a power cut behind this many records leaves them at worst: without all that was not flushed.
    pub(crate) fn cut_unflushed(&self, scratch: &Scratch, until: u64) -> [PathBuf; 2] {
        self.replay(scratch, until, &["--seed", "0", "--lose-unflushed"])
    }

    /// Files as a power cut behind this many records could have left them: cache and origin.
    pub(crate) fn cut(&self, scratch: &Scratch, until: u64, seed: u64) -> [PathBuf; 2] {
        self.replay(scratch, until, &["--seed", &seed.to_string()])
    }

    fn replay(&self, scratch: &Scratch, until: u64, words: &[&str]) -> [PathBuf; 2] {
        let names = ["cache cut", "origin cut"];
        let files = [0, 1].map(|disk| scratch.sparse(names[disk], self.sizes[disk]));
        let mut arguments: Vec<OsString> = vec!["replay".into(), "--log".into(), self.log.clone().into()];
        arguments.extend(["--until".into(), until.to_string().into()]);
        arguments.extend(words.iter().map(Into::into));
        arguments.extend(disk_arguments(&files));
        tools::run(FAULTDISK, arguments);
        files
    }
}

/// Ends all faults when it is dropped: nothing can be killed that waits for a disk that hangs.
pub(crate) struct Release<'a>(pub(crate) &'a FaultyDisks);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.tell("clear");
    }
}

/// A disk whose program is stopped.
pub(crate) struct Frozen<'a>(&'a Fuse);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

impl Drop for FaultyDisks {
    fn drop(&mut self) {
        // The mounts come down by themselves once nobody answers; not before, as they would wait.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn disk_arguments(files: &[PathBuf; 2]) -> [OsString; 2] {
    let argument = |name: &str, file: &Path| {
        let mut argument = OsString::from(format!("{name}="));
        argument.push(file);
        argument
    };
    [argument("cache", &files[0]), argument("origin", &files[1])]
}

fn files_size(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}
