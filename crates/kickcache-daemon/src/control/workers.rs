//! Threads that carry out requests.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::UCred;

use crate::control::connections::ControlRequest;
use crate::control::socket_file::SocketUsers;
use crate::control::wire::Request;
use crate::control::{Answer, RequestHandler};
use crate::jobs::Jobs;
use crate::wakeup::Wakeup;

/// The most requests that are carried out at a time.
pub(super) const WORKER_COUNT_MAX: usize = 32;

/// The threads, their requests and their answers. When this value is dropped, the threads end once no request waits.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: usize,
    /// Requests that others may share; see [`Request::is_shared`].
    running: Vec<Running>,
}

struct Running {
    request: Request,
    number: u64,
    /// Connections that sent an equal request later.
    sharers: Vec<u64>,
}

struct Shared {
    handler: Arc<dyn RequestHandler>,
    jobs: Jobs<ControlRequest>,
    answers: Mutex<Vec<NumberedAnswer>>,
    /// The users of the socket; requests are logged at the socket of [`SocketUsers::Owner`] alone.
    users: SocketUsers,
    /// Rung when there is an answer, when the thread of a recording ends, or at the end of the server.
    wakeup: Arc<Wakeup>,
}

pub(super) struct NumberedAnswer {
    pub(super) number: u64,
    pub(super) answer: Answer,
}

impl Workers {
    pub(super) fn new(handler: Arc<dyn RequestHandler>, users: SocketUsers) -> std::io::Result<Workers> {
        let wakeup = Arc::new(Wakeup::new()?);
        let shared = Shared { handler, jobs: Jobs::default(), answers: Mutex::default(), users, wakeup };
        Ok(Workers { shared: Arc::new(shared), threads: 0, running: Vec::new() })
    }

    /// The descriptor that is readable when there is an answer; other code may ring it.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.shared.wakeup)
    }

    /// Starts a request. If an equal request of a kind that is shared is running, both get its answer.
    pub(super) fn begin(&mut self, job: ControlRequest) {
        if job.request.is_shared() {
            if let Some(running) = self.running.iter_mut().find(|running| running.request == job.request) {
                self.shared.log(&job);
                return running.sharers.push(job.number);
            }
            let request = job.request.clone();
            self.running.push(Running { request, number: job.number, sharers: Vec::new() });
        }
        if self.shared.jobs.push(job) && self.threads < WORKER_COUNT_MAX {
            let shared = Arc::clone(&self.shared);
            let started =
                std::thread::Builder::new().name("control-worker".into()).spawn(move || shared.work());
            // If no further thread can be started, the existing threads do the work, or a thread that is started
            // for a later request.
            self.threads += usize::from(started.is_ok());
        }
    }

    pub(super) fn take_answers(&mut self) -> Vec<NumberedAnswer> {
        self.shared.wakeup.clear();
        let mut answers =
            std::mem::take(&mut *self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner));
        for index in 0..answers.len() {
            let NumberedAnswer { number, answer: Answer::Reply(reply) } = &answers[index] else { continue };
            let Some(ended) = self.running.iter().position(|running| running.number == *number) else {
                continue;
            };
            let (reply, sharers) = (reply.clone(), self.running.swap_remove(ended).sharers);
            let shared = |number| NumberedAnswer { number, answer: Answer::Reply(reply.clone()) };
            answers.extend(sharers.into_iter().map(shared));
        }
        answers
    }
}

impl AsFd for Workers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.jobs.close();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.jobs.next() {
            self.log(&job);
            let answer =
                self.handler.handle(&job.request).unwrap_or_else(|error| Answer::Reply(error.into()));
            self.answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(NumberedAnswer { number: job.number, answer });
            self.wakeup.ring();
        }
    }

    /// Logs the client and its request at the control socket, except for `Status` and `AwaitEnd`.
    fn log(&self, job: &ControlRequest) {
        let is_query = matches!(job.request, Request::Status {} | Request::AwaitEnd {});
        if is_query || self.users != SocketUsers::Owner {
            return;
        }
        let who = match job.peer {
            Some(UCred { pid, uid, .. }) => format!("user {} in process {pid}", uid.as_raw()),
            None => "somebody".into(),
        };
        let request = serde_json::to_string(&job.request).unwrap_or_default();
        tracing::info!(event = "control_request", "request of {who} at the control socket: {request}");
    }
}
