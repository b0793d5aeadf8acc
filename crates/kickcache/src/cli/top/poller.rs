//! Requests the status at intervals, in a separate thread.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use kickcache_daemon::control::client::{Client, ClientError};
use kickcache_daemon::control::report::Report;

pub(super) struct Poller {
    every: Duration,
    due: Instant,
    awaited: Option<Receiver<Result<Report, ClientError>>>,
}

impl Poller {
    /// The first request is due after `every`.
    pub(super) fn new(every: Duration) -> Poller {
        Poller { every, due: Instant::now() + every, awaited: None }
    }

    /// Sends a request when it is due; returns an answer that arrived.
    pub(super) fn poll(&mut self, client: impl FnOnce() -> Client) -> Option<Result<Report, ClientError>> {
        let Some(awaited) = &self.awaited else {
            if Instant::now() >= self.due {
                self.ask(client());
            }
            return None;
        };
        let answer = match awaited.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => None,
        };
        (self.awaited, self.due) = (None, Instant::now() + self.every);
        answer
    }

    fn ask(&mut self, client: Client) {
        let (sender, receiver) = mpsc::channel();
        // The receiver may be dropped; without a thread the request is repeated later.
        let ask = move || drop(sender.send(client.status()));
        let _ = thread::Builder::new().name("asking".into()).spawn(ask);
        self.awaited = Some(receiver);
    }
}
