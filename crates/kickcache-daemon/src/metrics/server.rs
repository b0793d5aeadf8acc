//! The thread that answers scrapers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::ControlError;
use crate::control::lru_curve::LruCurve;
use crate::driver::open_files;
use crate::metrics::connections::Connections;
use crate::metrics::exposition::exposition;
use crate::metrics::http::{DocumentRequest, Host, Request, Response, Status};
use crate::metrics::live::view::LiveView;
use crate::metrics::live::{PAGE, PAGE_POLICY};
use crate::metrics::scrape::{MetricsTarget, Scrape};
use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::metrics_address::MetricsAddress;
use crate::serve::error::ServeError;
use crate::serve::frontend::listener::{Listener, Place, check};
use crate::wakeup::Wakeup;

/// The most connections that are accepted in one turn.
const ACCEPTS_MAX: usize = 16;
/// How long no connection is accepted after the acceptance of a connection failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running metrics server, which ends when this is dropped.
#[must_use = "metrics are not served any more when this is dropped"]
pub struct MetricsServer {
    address: String,
    ending: Arc<AtomicBool>,
    wakeup: Arc<Wakeup>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and answers on a thread of its own until dropped.
    ///
    /// # Errors
    /// If the address cannot be served.
    pub fn start(
        address: &MetricsAddress,
        exposure: Exposure,
        target: Arc<dyn MetricsTarget>,
    ) -> Result<MetricsServer, ServeError> {
        let socket = address.socket();
        check(socket, exposure)?;
        let listener = Listener::open(Place::Address(socket.clone()), exposure)?;
        let address = match socket {
            NbdAddress::Unix(_) => format!("unix:{}", listener.address),
            NbdAddress::Tcp { .. } => format!("http://{}/metrics", listener.address),
        };
        let wakeup = Arc::new(Wakeup::new().map_err(ServeError::system("make an event descriptor"))?);
        let ending = Arc::new(AtomicBool::new(false));
        let responder = Responder {
            listener,
            wakeup: Arc::clone(&wakeup),
            ending: Arc::clone(&ending),
            connections: Connections::default(),
            answers: Answers {
                exposure,
                target,
                curves: BTreeMap::new(),
                live: LiveView::new(Instant::now()),
            },
            pause: None,
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || responder.run());
        let thread = thread.map_err(ServeError::system("start a thread"))?;
        Ok(MetricsServer { address, ending, wakeup, thread: Some(thread) })
    }

    /// The URL of the live page; `None` if the server listens on a unix socket.
    pub fn page(&self) -> Option<&str> {
        self.address.strip_suffix("metrics").filter(|page| page.starts_with("http"))
    }

    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.wakeup.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Responder {
    listener: Listener,
    wakeup: Arc<Wakeup>,
    ending: Arc<AtomicBool>,
    connections: Connections,
    answers: Answers,
    /// Until this time, no connection is accepted.
    pause: Option<Instant>,
}

struct Ready {
    listener: bool,
    connections: Vec<bool>,
}

impl Responder {
    fn run(mut self) {
        while !self.ending.load(Ordering::Acquire) {
            let ready = self.wait();
            let now = Instant::now();
            self.connections.handle(now, &ready.connections, &mut |request| self.answers.answer(request));
            self.answers.look(now);
            self.pause = self.pause.filter(|pause| *pause > now);
            if ready.listener {
                self.accept(now);
            }
        }
    }

    fn wait(&self) -> Ready {
        let accepting = if self.pause.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN), PollFd::new(&self.listener, accepting)];
        let watches = self.connections.watches();
        fds.extend(watches.map(|(socket, flags)| PollFd::from_borrowed_fd(socket, flags)));
        let look = Some(self.answers.live.due());
        let due = [self.connections.next_deadline(), self.pause, look].into_iter().flatten().min();
        let span = due.map(|due| due.saturating_duration_since(Instant::now()));
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        // A signal in between ends the wait without a ready descriptor.
        let _ = poll(&mut fds, span.as_ref());
        let mut ready = fds.iter().skip(1).map(|fd| !fd.revents().is_empty());
        Ready { listener: ready.next().unwrap_or(false), connections: ready.collect() }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(Some(socket)) if open_files::is_of_reserve(&socket) => {}
                Ok(Some(socket)) => self.connections.insert(socket, now),
                Ok(None) => return,
                Err(_) => {
                    // The reason may be a lack of descriptors or memory.
                    self.connections.close_longest_silent();
                    self.pause = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }
}

struct Answers {
    exposure: Exposure,
    target: Arc<dyn MetricsTarget>,
    /// The last curve of each volume.
    curves: BTreeMap<String, LruCurve>,
    live: LiveView,
}

impl Answers {
    /// Takes a sample, if it is due, for later requests of the history.
    fn look(&mut self, now: Instant) {
        if now >= self.live.due() {
            let scrape = self.scrape().ok();
            self.live.take(Instant::now(), scrape);
        }
    }

    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let Request { body, after, format, .. } = *request;
        let typed = |status, content_type, policy, text: &str| {
            Response { status, content_type, policy, text, body, after }.bytes()
        };
        let plain = |status, text: &str| typed(status, "text/plain; charset=utf-8", None, text);
        if request.host == Host::Foreign && self.exposure == Exposure::LocalOnly {
            let text = "The host in this request is a name, and only localhost and addresses are \
                        answered here: use http://localhost/, or start the daemon with --insecure-tcp.\n";
            return plain(Status::Forbidden, text);
        }
        match request.asked {
            DocumentRequest::Page => typed(Status::Good, "text/html; charset=utf-8", Some(PAGE_POLICY), PAGE),
            DocumentRequest::History { since, curves } => {
                typed(Status::Good, "application/json", None, &self.live.document(since, curves))
            }
            DocumentRequest::Unknown => {
                plain(Status::NotFound, "There is a page at / and there is /metrics here.\n")
            }
            DocumentRequest::NotAllowed => plain(Status::NotAllowed, "Only GET and HEAD are possible.\n"),
            DocumentRequest::Metrics => match self.scrape() {
                Ok(scrape) => typed(Status::Good, format.content_type(), None, &exposition(scrape, format)),
                Err(error) => plain(Status::Unavailable, &format!("{error}\n")),
            },
        }
    }

    fn scrape(&mut self) -> Result<Scrape, ControlError> {
        let mut scrape = self.target.scrape()?;
        self.complete(&mut scrape);
        Ok(scrape)
    }

    fn complete(&mut self, scrape: &mut Scrape) {
        let volumes = scrape.report.caches.iter_mut().flat_map(|cache| &mut cache.volumes);
        for volume in volumes {
            match &volume.lru_curve {
                Some(curve) => drop(self.curves.insert(volume.name.clone(), curve.clone())),
                None => volume.lru_curve = self.curves.get(&volume.name).cloned(),
            }
        }
    }
}
