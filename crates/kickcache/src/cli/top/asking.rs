//! Asks the daemon now and then, beside the keys: it may not answer for long.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use kickcache_daemon::control::client::{Client, ClientError};
use kickcache_daemon::control::report::Report;

/// When it is asked, and what for an answer is awaited.
pub(super) struct Asking {
    every: Duration,
    due: Instant,
    awaited: Option<Receiver<Result<Report, ClientError>>>,
}

impl Asking {
    /// It was asked just now.
    pub(super) fn new(every: Duration) -> Asking {
        Asking { every, due: Instant::now() + every, awaited: None }
    }

    /// Asks when it is time to; an answer that came.
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
        // Nobody may look any more; without a thread it is asked again later.
        let ask = move || drop(sender.send(client.status()));
        let _ = thread::Builder::new().name("asking".into()).spawn(ask);
        self.awaited = Some(receiver);
    }
}
