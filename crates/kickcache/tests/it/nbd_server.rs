//! A server of NBD for tests of remote origins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::client::greet;
use crate::daemon::guarded;
use crate::scratch::Scratch;

/// Unflushed writes are in a file of the server's own: a kill loses them.
const FORGETFUL: [&str; 1] = ["--filter=cache"];

/// An nbdkit that serves a file.
pub(crate) struct Server {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Server {
    pub(crate) fn start(scratch: &Scratch, disk: &Path, filters: &[&str], parameters: &[&str]) -> Server {
        let socket = scratch.path("origin.sock");
        let _ = fs::remove_file(&socket);
        let mut arguments = vec!["-f".into(), "-U".into(), socket.clone().into()];
        arguments.extend(filters.iter().map(Into::into));
        arguments.extend(["file".into(), disk.into()]);
        arguments.extend(parameters.iter().map(Into::into));
        let child = guarded("nbdkit", arguments).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while greet(&socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "nbdkit does not start");
            thread::sleep(Duration::from_millis(5));
        }
        Server { child, socket }
    }

    pub(crate) fn forgetful(scratch: &Scratch, disk: &Path) -> Server {
        Server::start(scratch, disk, &FORGETFUL, &["cache=writeback"])
    }

    pub(crate) fn uri(&self) -> PathBuf {
        format!("nbd+unix:///?socket={}", self.socket.display()).into()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The server's threads may continue for a moment after the signal.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
