//! The daemon's end of the control socket.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::connections::{Connections, ControlRequest};
use crate::control::feed::feed;
use crate::control::request_handler::StatusOnly;
use crate::control::socket_file::{ServerError, SocketFault, SocketUsers, open};
use crate::control::wire::{LeftOnCache, Reply};
use crate::control::workers::{NumberedAnswer, Workers};
use crate::control::{Answer, RequestHandler};
use crate::plan::address::check_socket_path;
use crate::recording::ring::Recording;
use crate::wakeup::Wakeup;

/// The most connections that are accepted in one turn.
const ACCEPTS_MAX: usize = 64;
/// How long no connection is accepted after the acceptance of a connection failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The longest wait of the end for running requests, unsent answers and recordings.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// A control socket or status socket that is open; closing removes its path, unless another file is there.
#[must_use = "the socket is closed when this is dropped"]
pub struct ControlServer {
    path: PathBuf,
    inode: u64,
    ending: Arc<AtomicBool>,
    ended: Arc<OnceLock<DaemonEnd>>,
    wakeup: Arc<Wakeup>,
    acceptor: Option<JoinHandle<()>>,
}

/// How a daemon ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DaemonEnd {
    /// The daemon ended cleanly, with these blocks left on cache devices.
    Clean(Vec<LeftOnCache>),
    Unclean(String),
}

impl ControlServer {
    /// Opens the socket and serves it on a thread of its own until dropped.
    ///
    /// # Errors
    /// The path is unusable or in use, see [`ServerError`]; or the system refuses.
    pub fn start(path: &Path, handler: Arc<dyn RequestHandler>) -> Result<ControlServer, ServerError> {
        ControlServer::start_for(path, handler, SocketUsers::Owner)
    }

    /// Opens a status socket: the group of the socket may connect as well.
    ///
    /// # Errors
    /// As [`ControlServer::start`].
    pub fn start_status(path: &Path, handler: Arc<dyn RequestHandler>) -> Result<ControlServer, ServerError> {
        ControlServer::start_for(path, Arc::new(StatusOnly(handler)), SocketUsers::Group)
    }

    fn start_for(
        path: &Path,
        handler: Arc<dyn RequestHandler>,
        users: SocketUsers,
    ) -> Result<ControlServer, ServerError> {
        check_socket_path(path).map_err(|error| users.fault(path, SocketFault::Path(error)))?;
        let fail = |source| users.fault(path, SocketFault::Io(source));
        let listener = open(path, users)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let inode = std::fs::metadata(path).map_err(fail)?.ino();
        let workers = Workers::new(handler, users).map_err(fail)?;
        let (wakeup, ending) = (workers.wakeup(), Arc::new(AtomicBool::new(false)));
        let (connections, ended) = (Connections::of(&instance()), Arc::new(OnceLock::new()));
        let acceptor = Acceptor {
            listener,
            connections,
            workers,
            ending: Arc::clone(&ending),
            feeds: Arc::default(),
            ended: Arc::clone(&ended),
            pause: None,
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || acceptor.run());
        let acceptor = Some(thread.map_err(fail)?);
        Ok(ControlServer { path: path.into(), inode, ending, ended, wakeup, acceptor })
    }

    /// Closes the socket, and reports the daemon's end to the clients that requested it.
    pub fn end(self, end: DaemonEnd) {
        // Only this line sets it, so the result is always `Ok`.
        let _ = self.ended.set(end);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.wakeup.ring();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A name that no other daemon at any socket has: in a container every daemon may have the same process id.
fn instance() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

struct Acceptor {
    listener: UnixListener,
    connections: Connections,
    workers: Workers,
    ending: Arc<AtomicBool>,
    /// The number of threads that send recordings.
    feeds: Arc<AtomicUsize>,
    ended: Arc<OnceLock<DaemonEnd>>,
    /// Until this time, no connection is accepted.
    pause: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WatchKey {
    Workers,
    Listener,
    Connection(u64),
}

impl Acceptor {
    fn run(mut self) {
        while !self.ending.load(Ordering::Acquire) {
            self.turn(None);
        }
        match self.ended.get() {
            Some(DaemonEnd::Clean(left)) => {
                let reply = Reply::Ended { error: None, left: left.clone() };
                self.connections.tell_end(&reply, Instant::now());
            }
            Some(DaemonEnd::Unclean(why)) => {
                let reply = Reply::Ended { error: Some(why.clone()), left: Vec::new() };
                self.connections.tell_end(&reply, Instant::now());
            }
            None => {}
        }
        // The client that stopped the daemon still gets its answer, if it takes it within [`GOODBYE_MAX`].
        let until = Instant::now() + GOODBYE_MAX;
        while self.owes() && Instant::now() < until {
            self.turn(Some(until));
        }
    }

    fn owes(&self) -> bool {
        self.connections.owes() || self.feeds.load(Ordering::Acquire) > 0
    }

    /// If there is an `end`, the wait ends by then, and no connection is accepted.
    fn turn(&mut self, end: Option<Instant>) {
        let now = Instant::now();
        self.pause = self.pause.filter(|pause| *pause > now);
        for watched in self.wait(end) {
            let now = Instant::now();
            match watched {
                WatchKey::Workers => self.take_answers(now),
                WatchKey::Listener => self.accept(now),
                WatchKey::Connection(number) => {
                    let job = self.connections.handle_ready(number, now);
                    self.begin(job);
                }
            }
        }
        self.connections.sweep(Instant::now());
    }

    fn wait(&self, end: Option<Instant>) -> Vec<WatchKey> {
        let mut fds = vec![PollFd::new(&self.workers, PollFlags::IN)];
        let mut keys = vec![WatchKey::Workers];
        if end.is_none() && self.pause.is_none() {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
            keys.push(WatchKey::Listener);
        }
        for watch in self.connections.watches() {
            fds.push(PollFd::from_borrowed_fd(watch.fd, watch.flags));
            keys.push(WatchKey::Connection(watch.number));
        }
        let due = [self.connections.next_deadline(), self.pause, end].into_iter().flatten().min();
        let span = due.map(|due| due.saturating_duration_since(Instant::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        // A signal in between ends the wait without a ready descriptor.
        let _ = poll(&mut fds, span.as_ref());
        let ready = fds.iter().zip(keys).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, key)| key).collect()
    }

    fn take_answers(&mut self, now: Instant) {
        for NumberedAnswer { number, answer } in self.workers.take_answers() {
            match answer {
                Answer::Reply(reply) => {
                    let job = self.connections.handle_reply(number, &reply, now);
                    self.begin(job);
                }
                Answer::Feed(title, recording) => {
                    self.begin_feed(number, Reply::Recording(title), recording);
                }
            }
        }
    }

    /// Gives a connection to a thread of its own; if no thread can be started, the connection is closed, and
    /// the recording ends.
    fn begin_feed(&mut self, number: u64, reply: Reply, recording: Recording) {
        let Some(stream) = self.connections.take(number) else { return };
        let (feeds, wakeup) = (Arc::clone(&self.feeds), self.workers.wakeup());
        feeds.fetch_add(1, Ordering::AcqRel);
        let run = move || {
            // A disconnected client ends the recording, too.
            let _ = feed(stream, &reply, recording);
            feeds.fetch_sub(1, Ordering::AcqRel);
            wakeup.ring();
        };
        if std::thread::Builder::new().name("recording".into()).spawn(run).is_err() {
            self.feeds.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let job = self.connections.insert(stream, now);
                    self.begin(job);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The reason may be a lack of descriptors or memory, so an idle connection is closed.
                    self.connections.close_longest_idle();
                    self.pause = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, job: Option<ControlRequest>) {
        if let Some(job) = job {
            self.workers.begin(job);
        }
    }
}
