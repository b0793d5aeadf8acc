//! An operation that runs as a script on a thread of its own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::driver::clock::WatchedTime;
use crate::serve::error::ServeError;

/// The longest wait of a caller for devices.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// The longest time between two readings of a caller's stopwatch.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The scripts of one kind that have not answered, at most one for a subject.
pub(crate) struct Scripts<T>(Mutex<Vec<Arc<Script<T>>>>);

pub(crate) struct Script<T> {
    subject: String,
    wait: Mutex<CallerWait<T>>,
    changed: Condvar,
}

struct CallerWait<T> {
    has_caller: bool,
    answer: Option<Result<T, ServeError>>,
}

impl<T> Default for Scripts<T> {
    fn default() -> Scripts<T> {
        Scripts(Mutex::default())
    }
}

impl<T> Scripts<T> {
    /// The script passes its answer to its argument, and may go on afterwards.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(
        self: &Arc<Self>,
        subject: &str,
        run: impl FnOnce(&dyn Fn(Result<T, ServeError>)) + Send + 'static,
    ) -> Result<Arc<Script<T>>, ServeError>
    where
        T: Send + 'static,
    {
        let script = self.begin(subject);
        let (scripts, running) = (Arc::clone(self), Arc::clone(&script));
        let run = move || run(&|answer| scripts.answer(&running, answer));
        if let Err(error) = thread::Builder::new().name("script".into()).spawn(run) {
            self.answer(&script, Err(ServeError::Stopped));
            return Err(ServeError::system("start a thread")(error));
        }
        Ok(script)
    }

    fn begin(&self, subject: &str) -> Arc<Script<T>> {
        let wait = Mutex::new(CallerWait { has_caller: true, answer: None });
        let script = Arc::new(Script { subject: subject.into(), wait, changed: Condvar::new() });
        lock(&self.0).push(Arc::clone(&script));
        script
    }

    /// The running script of a subject, if it has not answered and no caller waits for it.
    pub(crate) fn join(&self, subject: &str) -> Option<Arc<Script<T>>> {
        let script = lock(&self.0).iter().find(|script| script.subject == subject).cloned()?;
        let mut wait = lock(&script.wait);
        let is_free = !wait.has_caller && wait.answer.is_none();
        wait.has_caller |= is_free;
        drop(wait);
        is_free.then_some(script)
    }

    fn answer(&self, script: &Arc<Script<T>>, answer: Result<T, ServeError>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, script));
        lock(&script.wait).answer = Some(answer);
        script.changed.notify_all();
    }
}

impl<T> Script<T> {
    /// Waits for the answer; `None` after 8 s.
    pub(crate) fn wait(&self) -> Option<Result<T, ServeError>> {
        let mut waited = WatchedTime::begin();
        let mut wait = lock(&self.wait);
        while wait.answer.is_none() && waited.look() < ANSWER_MAX {
            let next = self.changed.wait_timeout(wait, LOOK_EVERY);
            wait = next.unwrap_or_else(PoisonError::into_inner).0;
        }
        wait.has_caller = false;
        wait.answer.take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_joined_by_one_caller_until_it_answers() {
        let scripts = Scripts::default();
        let script = scripts.begin("vm1");
        assert!(scripts.join("vm1").is_none(), "its first caller waits");
        lock(&script.wait).has_caller = false;
        let joined = scripts.join("vm1").unwrap();
        assert!(scripts.join("vm1").is_none() && scripts.join("vm2").is_none());
        scripts.answer(&script, Ok(7));
        assert_eq!(joined.wait().unwrap().unwrap(), 7);
        assert!(scripts.join("vm1").is_none(), "it has answered");
    }

    #[test]
    fn an_answer_wakes_the_caller() {
        let scripts = Scripts::default();
        let script = scripts.begin("vm1");
        thread::scope(|scope| {
            let caller = scope.spawn(|| script.wait().unwrap().unwrap());
            scripts.answer(&script, Ok(1));
            assert_eq!(caller.join().unwrap(), 1);
        });
    }
}
