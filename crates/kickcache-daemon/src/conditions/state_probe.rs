//! Whether the state directory can be written, tried on a thread of its own because its disk may hang.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The least time from the end of an attempt to the next attempt.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// An attempt that has taken this long counts as failed while it runs.
const PROBE_MAX: Duration = Duration::from_secs(30);
const PROBE_BYTES: [u8; 4096] = [0; 4096];

#[derive(Debug)]
pub struct StateProbe {
    directory: PathBuf,
    state: Arc<Mutex<Probed>>,
}

#[derive(Debug, Default)]
struct Probed {
    /// When the attempt in progress began; `None` if none is.
    begun: Option<Instant>,
    ended: Option<Instant>,
    failure: Option<String>,
}

impl StateProbe {
    pub fn new(directory: PathBuf) -> StateProbe {
        StateProbe { directory, state: Arc::default() }
    }

    /// Begins an attempt if one is due and none is in progress. Returns why the last completed attempt
    /// failed, or that the attempt in progress has taken [`PROBE_MAX`]; else `None`.
    pub fn poll(&self, now: Instant) -> Option<String> {
        let mut probed = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = probed.begun {
            let span = now.saturating_duration_since(begun);
            return match span >= PROBE_MAX {
                true => Some(format!("its disk has not answered for {} s", span.as_secs())),
                false => probed.failure.clone(),
            };
        }
        let is_due = probed.ended.is_none_or(|ended| now.saturating_duration_since(ended) >= PROBE_EVERY);
        if is_due {
            let (state, directory) = (Arc::clone(&self.state), self.directory.clone());
            let attempt = move || {
                let failure = attempt(&directory).err();
                let mut probed = state.lock().unwrap_or_else(PoisonError::into_inner);
                *probed = Probed { begun: None, ended: Some(Instant::now()), failure };
            };
            if thread::Builder::new().name("state-probe".into()).spawn(attempt).is_ok() {
                probed.begun = Some(now);
            }
        }
        probed.failure.clone()
    }
}

/// Writes a file that has no name, or loses it at once.
fn attempt(directory: &Path) -> Result<(), String> {
    let written = tempfile::tempfile_in(directory).and_then(|mut file| file.write_all(&PROBE_BYTES));
    written.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_written_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(attempt(folder.path()), Ok(()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = folder.path().join("missing");
        assert!(attempt(&missing).unwrap_err().contains("No such file"));
        assert!(attempt(Path::new("/proc")).is_err());
    }

    #[test]
    fn a_disk_that_hangs_is_reported() {
        let probe = StateProbe::new("/nowhere".into());
        let begun = Instant::now();
        probe.state.lock().unwrap().begun = Some(begun);
        assert_eq!(probe.poll(begun + Duration::from_secs(29)), None);
        let said = probe.poll(begun + Duration::from_secs(31)).unwrap();
        assert_eq!(said, "its disk has not answered for 31 s");
    }
}
