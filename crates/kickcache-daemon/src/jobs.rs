//! A queue of jobs for threads that are started when they are needed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Jobs<T> {
    queue: Mutex<Queue<T>>,
    more: Condvar,
}

struct Queue<T> {
    jobs: VecDeque<T>,
    /// Threads that wait, those included that were woken and have not run yet.
    idle: usize,
    closed: bool,
}

impl<T> Default for Jobs<T> {
    fn default() -> Jobs<T> {
        let queue = Queue { jobs: VecDeque::new(), idle: 0, closed: false };
        Jobs { queue: Mutex::new(queue), more: Condvar::new() }
    }
}

impl<T> Jobs<T> {
    /// Adds a job; `true` if more jobs are queued than threads wait.
    pub(crate) fn push(&self, job: T) -> bool {
        let mut queue = self.lock();
        queue.jobs.push_back(job);
        self.more.notify_one();
        queue.jobs.len() > queue.idle
    }

    /// Waits for a job; `None` when there will be none any more.
    pub(crate) fn next(&self) -> Option<T> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Takes all jobs out of the queue.
    pub(crate) fn take_all(&self) -> VecDeque<T> {
        std::mem::take(&mut self.lock().jobs)
    }

    /// Ends the threads when the queue is empty.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_is_wanted_only_while_none_is_free() {
        let jobs: Arc<Jobs<Receiver<()>>> = Arc::default();
        let worker = Arc::clone(&jobs);
        let thread = thread::spawn(move || {
            std::iter::from_fn(|| worker.next()).filter(|job| job.recv().is_err()).count()
        });
        let (end_first, first) = mpsc::channel();
        let (end_second, second) = mpsc::channel();
        while jobs.lock().idle == 0 {
            thread::yield_now();
        }
        assert!(!jobs.push(first), "the waiting thread takes it");
        while !jobs.lock().jobs.is_empty() {
            thread::yield_now();
        }
        assert!(jobs.push(second), "the only one is busy");
        drop((end_first, end_second));
        jobs.close();
        assert_eq!(thread.join().unwrap(), 2);
    }

    #[test]
    fn jobs_without_a_taker_are_returned() {
        let jobs = Jobs::default();
        (0..3).for_each(|job| _ = jobs.push(job));
        assert_eq!(jobs.take_all(), [0, 1, 2]);
        jobs.close();
        assert_eq!(jobs.next(), None);
    }
}
