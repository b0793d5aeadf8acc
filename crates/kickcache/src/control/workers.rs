//! Threads that carry out requests, which may wait for a daemon that starts: started when they are needed, up to a limit.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::control::ControlTarget;
use crate::control::connections::Job;
use crate::control::wire::{Reply, Request};

/// Requests carried out at a time.
pub(super) const WORKER_COUNT_MAX: usize = 32;

/// The threads, and what goes to them and comes back. They end when this is dropped, each after its request.
pub(super) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    target: Arc<dyn ControlTarget>,
    desk: Mutex<Desk>,
    changed: Condvar,
    /// Readable when a reply is there, or the end has come.
    bell: OwnedFd,
}

#[derive(Default)]
struct Desk {
    jobs: VecDeque<Job>,
    replies: Vec<(u64, Reply)>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// Rings the bell of some workers.
#[derive(Clone)]
pub(super) struct Bell(Arc<Shared>);

impl Workers {
    pub(super) fn new(target: Arc<dyn ControlTarget>) -> std::io::Result<Workers> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Shared { target, desk: Mutex::default(), changed: Condvar::new(), bell };
        Ok(Workers { shared: Arc::new(shared) })
    }

    pub(super) fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.shared))
    }

    /// Has a request carried out.
    pub(super) fn begin(&self, job: Job) {
        let mut desk = self.shared.lock();
        desk.jobs.push_back(job);
        if desk.jobs.len() > desk.idle && desk.threads < WORKER_COUNT_MAX {
            let shared = Arc::clone(&self.shared);
            let started =
                std::thread::Builder::new().name("control-worker".into()).spawn(move || shared.work());
            // Without memory for one more thread those that there are do the work.
            desk.threads += usize::from(started.is_ok());
        }
        self.shared.changed.notify_one();
    }

    /// The replies that came since the last call.
    pub(super) fn take_replies(&self) -> Vec<(u64, Reply)> {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        std::mem::take(&mut self.shared.lock().replies)
    }
}

impl AsFd for Workers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Bell {
    pub(super) fn ring(&self) {
        self.0.ring();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::host_endian_bytes, reason = "an eventfd takes the host's byte order")]
    fn ring(&self) {
        // A full counter is readable already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn work(&self) {
        while let Some(job) = self.next_job() {
            let reply = answer(&*self.target, &job.request);
            self.lock().replies.push((job.number, reply));
            self.ring();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut desk = self.lock();
        loop {
            if let Some(job) = desk.jobs.pop_front() {
                return Some(job);
            }
            if desk.closed {
                return None;
            }
            desk.idle += 1;
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
        }
    }
}

fn answer(target: &dyn ControlTarget, request: &Request) -> Reply {
    let result = match request {
        Request::Status {} => target.status().map(|report| Reply::Status(Box::new(report))),
        Request::Mode { volume, mode } => target.set_mode(volume, *mode).map(|()| Reply::Done),
        Request::Drain { volume } => target.drain(volume).map(|()| Reply::Done),
        Request::Resize { volume } => target.resize(volume).map(|size_bytes| Reply::Resized { size_bytes }),
        Request::Stop {} => target.stop().map(|()| Reply::Done),
    };
    result.unwrap_or_else(|error| Reply::Error { message: error.to_string() })
}
