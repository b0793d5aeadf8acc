//! Whether devices respond at all.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use std::{io, thread};

use super::probe::read_first;
use super::{OpenError, kind};
use crate::driver::clock::WatchedTime;
use crate::driver::rights::access;

/// The time after which the log names an awaited device.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// The longest wait for the answers of all devices together.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// Reads the first block of each device, all at the same time, and waits for [`SILENT_MAX`] at most. Returns
/// the devices that did not respond, each as [`OpenError::Silent`]. A thread that waits for a silent device
/// is abandoned.
pub fn silent_devices(paths: &[&Path]) -> Vec<OpenError> {
    let (sender, answers) = mpsc::channel();
    let mut silent: Vec<PathBuf> = Vec::new();
    for path in paths {
        if ask((*path).into(), sender.clone()).is_ok() {
            silent.push((*path).into());
        }
    }
    let mut time = WatchedTime::begin();
    let mut told = false;
    while !silent.is_empty() {
        let until = if told { SILENT_MAX } else { TELL_AFTER };
        let left = until.saturating_sub(time.look());
        match answers.recv_timeout(left.min(WatchedTime::LOOK_MAX)) {
            Ok(path) => silent.retain(|known| *known != path),
            Err(RecvTimeoutError::Timeout) if time.look() < until => {}
            Err(RecvTimeoutError::Timeout) if !told => {
                told = true;
                silent.iter().for_each(|path| tell(path));
            }
            // `Disconnected` never occurs, as `sender` exists.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    silent.into_iter().map(|path| OpenError::Silent { path, seconds: SILENT_MAX.as_secs() }).collect()
}

fn tell(path: &Path) {
    let (so_far, longest) = (TELL_AFTER.as_secs(), SILENT_MAX.as_secs());
    tracing::warn!(
        event = "start_waits",
        "{} has not answered for {so_far} s: the start waits for it, {longest} s at most",
        path.display()
    );
}

fn ask(path: PathBuf, answers: Sender<PathBuf>) -> io::Result<()> {
    let ask = move || {
        let _ = read(&path);
        let _ = answers.send(path);
    };
    thread::Builder::new().name("kickcache-ask".into()).spawn(ask).map(drop)
}

fn read(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Open { path: path.into(), source };
    // The type is checked before the open, because the open of a pipe would wait for the other end.
    kind(path, &access::metadata(path).map_err(failed)?)?;
    let direct = access::open_to_read(path, libc::O_DIRECT);
    let file = direct.or_else(|_| access::open_to_read(path, 0)).map_err(failed)?;
    read_first(&file).map(drop).map_err(failed)
}
