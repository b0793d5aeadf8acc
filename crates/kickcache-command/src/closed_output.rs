//! Detects that the output of a command has no reader: its terminal or the reader of its pipe has closed.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;

/// Watches the output of the command while it lives.
#[derive(Debug)]
#[must_use = "the output is not watched when this is dropped"]
pub struct OutputWatch {
    /// Closed by a drop, which ends the thread.
    _end: UnixStream,
}

impl OutputWatch {
    /// Calls `on_closed`, at most once, on a thread of its own when the output is closed.
    ///
    /// # Errors
    /// If the system has no thread or descriptor.
    pub fn start(on_closed: impl FnOnce() + Send + 'static) -> io::Result<OutputWatch> {
        let (end, ended) = UnixStream::pair()?;
        let watch = move || {
            if is_closed_before(&ended) {
                on_closed();
            }
        };
        thread::Builder::new().name("output".into()).spawn(watch)?;
        Ok(OutputWatch { _end: end })
    }
}

/// Waits until the output is closed; `false` if the watch is dropped before.
fn is_closed_before(ended: &UnixStream) -> bool {
    // A command with its output in a file may outlive the terminal of its standard input.
    let terminals = if isatty(stdout()) { vec![stdin(), stderr()] } else { vec![stderr()] };
    let terminals = terminals.into_iter().filter(|fd| isatty(*fd));
    let watched = std::iter::once(stdout()).chain(terminals);
    let watched = watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()));
    let mut fds: Vec<PollFd<'_>> =
        std::iter::once(PollFd::new(ended, PollFlags::empty())).chain(watched).collect();
    loop {
        let _ = poll(&mut fds, None);
        let is_hung_up = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        if is_hung_up(&fds[0]) {
            return false;
        }
        if fds[1..].iter().any(is_hung_up) {
            return true;
        }
    }
}
