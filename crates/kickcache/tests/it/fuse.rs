//! NBD exports as files, by nbdfuse.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::Scratch;
use crate::tools;

/// A file that is an NBD export; taken down when dropped.
pub(crate) struct Fuse {
    child: Child,
    file: PathBuf,
}

impl Fuse {
    pub(crate) fn mount(scratch: &Scratch, name: &str, uri: &str) -> Result<Fuse, String> {
        let file = scratch.sparse(name, 0);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "nbdfuse"]).arg(&file).arg(uri);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut fuse = Fuse { child: command.spawn().unwrap(), file };
        fuse.wait_for_mount()?;
        Ok(fuse)
    }

    fn wait_for_mount(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while !tools::output("mountpoint", [self.file.as_os_str()]).status.success() {
            if self.child.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(20) {
                return Err("nbdfuse cannot mount here".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // The kernel releases the files of an io_uring a moment after their process has ended.
        let start = Instant::now();
        while !tools::output("fusermount3", ["-u".as_ref(), self.file.as_os_str()]).status.success()
            && start.elapsed() < Duration::from_secs(5)
        {
            thread::sleep(Duration::from_millis(50));
        }
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` if an NBD export can be mounted here.
pub(crate) fn missing() -> Option<String> {
    let tool = ["nbdfuse", "fusermount3"].into_iter().find(|tool| !tools::is_installed(tool));
    match tool {
        Some(tool) => Some(format!("{tool} is not installed")),
        None if !Path::new("/dev/fuse").exists() => Some("there is no /dev/fuse".into()),
        None => None,
    }
}
