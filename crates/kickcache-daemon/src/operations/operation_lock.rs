//! Serialises changes of the served volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::control::ControlError;
use crate::shell_command::ShellCommand;

/// The longest wait of a change for an earlier one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The change in progress, and the volumes and cache devices that are about to go.
#[derive(Default)]
pub(crate) struct Operations {
    now: Mutex<Option<Change>>,
    ended: Condvar,
    leaving: Mutex<BTreeSet<String>>,
    leaving_out: Mutex<BTreeMap<String, u64>>,
}

struct Change {
    what: String,
    since: Instant,
}

/// A change has its turn while this lives.
pub(crate) struct OperationGuard<'a>(&'a Operations);

/// A volume counts as leaving while this lives, because it is being removed, or its cache device is being left out
/// or taken in.
pub(crate) struct RemovalGuard<'a> {
    under_way: &'a Operations,
    volume: String,
}

pub(crate) struct LeaveOutGuard<'a> {
    under_way: &'a Operations,
    device: String,
}

impl Operations {
    pub(crate) fn leave_out(&self, device: &str, bytes: u64) -> LeaveOutGuard<'_> {
        lock(&self.leaving_out).insert(device.into(), bytes);
        LeaveOutGuard { under_way: self, device: device.into() }
    }

    /// How many bytes were to be written back of a cache device that is about to be left out.
    pub(crate) fn leaving_out(&self, device: &str) -> Option<u64> {
        lock(&self.leaving_out).get(device).copied()
    }

    /// Refuses requests to a cache device that is being taken out of use.
    pub(crate) fn check_device_stays(&self, device: String) -> Result<String, ControlError> {
        match self.leaving_out(&device) {
            Some(_) => Err(ControlError::Refused(format!(
                "the cache device {device} is being taken out of use: its dirty blocks are written back \
                 first; `{}` shows the progress, try again when it has ended",
                ShellCommand::new("status")
            ))),
            None => Ok(device),
        }
    }

    /// Waits for the change in progress, with a time limit.
    ///
    /// # Errors
    /// If the change in progress takes longer than [`PATIENCE`].
    pub(crate) fn begin(&self, what: &str) -> Result<OperationGuard<'_>, ControlError> {
        self.begin_within(what, PATIENCE)
    }

    fn begin_within(&self, what: &str, patience: Duration) -> Result<OperationGuard<'_>, ControlError> {
        let now = lock(&self.now);
        let waited = self.ended.wait_timeout_while(now, patience, |now| now.is_some());
        let mut now = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(Change { what, since }) = &*now {
            let seconds = since.elapsed().as_secs();
            return Err(ControlError::Refused(format!(
                "another change is in progress for {seconds} s: {what}; nothing is changed, try again when it has ended"
            )));
        }
        *now = Some(Change { what: what.into(), since: Instant::now() });
        Ok(OperationGuard(self))
    }

    /// Records that a volume is about to go.
    ///
    /// # Errors
    /// If the volume is about to go already, see [`RemovalGuard`].
    pub(crate) fn leave(&self, volume: &str) -> Result<RemovalGuard<'_>, ControlError> {
        match lock(&self.leaving).insert(volume.into()) {
            true => Ok(RemovalGuard { under_way: self, volume: volume.into() }),
            false => Err(is_leaving(volume)),
        }
    }

    pub(crate) fn leave_all<'a>(
        &self,
        volumes: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<RemovalGuard<'_>>, ControlError> {
        volumes.map(|volume| self.leave(volume)).collect()
    }

    /// Refuses requests to a volume that is about to go, see [`RemovalGuard`].
    pub(crate) fn check_stays(&self, volume: &str) -> Result<(), ControlError> {
        match lock(&self.leaving).contains(volume) {
            true => Err(is_leaving(volume)),
            false => Ok(()),
        }
    }

    pub(crate) fn leaving(&self) -> BTreeSet<String> {
        lock(&self.leaving).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_leaving(volume: &str) -> ControlError {
    ControlError::Refused(format!(
        "volume {volume} is being removed, or its cache device is being taken out of use: its dirty \
         blocks are written back first; wait for that ({})",
        ShellCommand::new("drain").word(volume).word("--wait")
    ))
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.now) = None;
        self.0.ended.notify_one();
    }
}

impl Drop for LeaveOutGuard<'_> {
    fn drop(&mut self) {
        lock(&self.under_way.leaving_out).remove(&self.device);
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        lock(&self.under_way.leaving).remove(&self.volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PATIENCE: Duration = Duration::ZERO;

    #[test]
    fn a_second_change_gets_the_name_of_the_first() {
        let under_way = Operations::default();
        let first = under_way.begin("volume v1 is added").unwrap();
        let Err(error) = under_way.begin_within("a reload", NO_PATIENCE) else { panic!("two at once") };
        assert!(
            error.to_string().contains("in progress for 0 s: volume v1 is added; nothing is changed"),
            "{error}"
        );
        drop(first);
        drop(under_way.begin_within("a reload", NO_PATIENCE).unwrap());
    }

    #[test]
    fn a_change_that_ends_soon_is_waited_for() {
        let under_way = Operations::default();
        std::thread::scope(|scope| {
            let first = under_way.begin("one").unwrap();
            let second = scope.spawn(|| under_way.begin("two").is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn a_device_being_taken_out_of_use_is_not_replaced() {
        let under_way = Operations::default();
        let leaving = under_way.leave_out("/dev/fast", 4096);
        let refused = under_way.check_device_stays("/dev/fast".into()).unwrap_err().to_string();
        assert!(refused.contains("/dev/fast is being taken out of use"), "{refused}");
        assert!(under_way.check_device_stays("/dev/other".into()).is_ok());
        drop(leaving);
        assert!(under_way.check_device_stays("/dev/fast".into()).is_ok());
    }

    #[test]
    fn a_volume_goes_once() {
        let under_way = Operations::default();
        let leaving = under_way.leave("v").unwrap();
        assert!(under_way.leave("v").is_err() && under_way.check_stays("v").is_err());
        assert!(under_way.check_stays("w").is_ok());
        assert_eq!(under_way.leaving().into_iter().collect::<Vec<_>>(), ["v"]);
        drop(leaving);
        assert!(under_way.check_stays("v").is_ok());
    }
}
