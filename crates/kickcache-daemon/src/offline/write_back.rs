//! Serves a volume to nobody, until nothing of it is dirty.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::stats::VolumeStatus;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};

use crate::driver::clock::WatchedTime;
use crate::driver::errno::errno_text;
use crate::driver::fault::Cause;
use crate::offline::error::OfflineError;
use crate::serve::config::ServerConfig;
use crate::serve::error::ServeError;
use crate::serve::server::{Server, ServerHandle};
use crate::serve::stop_wish::StopWish;
use crate::signals::{self, Wish};

/// How often the server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long a drain that is interrupted waits for what is in flight.
const STOP_MAX: Duration = Duration::from_secs(1);
/// How long nothing may move while the origin fails.
const PATIENCE: Duration = Duration::from_secs(15);

/// How far it came.
pub(super) enum End {
    /// This many bytes were written back.
    Drained(u64),
    /// What stays dirty is damaged.
    Damaged,
    /// Something stays dirty.
    Stuck(String),
}

/// Serves the volume until nothing of it is dirty, or somebody interrupts it, be it while the server is started.
pub(super) fn write_back(
    config: ServerConfig,
    record: &VolumeRecord,
    dirty: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<End, OfflineError> {
    let stop = config.stop_wish.clone();
    let raised = stop.clone();
    // A shell has what it starts in the background ignore SIGINT, so that without this nothing would end a start.
    let caught = signals::catch(move |wish| match wish {
        Wish::Stop => raised.raise(),
        Wish::Reload => signals::tell_ignored("SIGHUP"),
    });
    let _signals = caught.map_err(ServeError::system("catch signals"))?;
    let handle = start(config, record)?;
    let ended = watch(&handle, record, dirty, &stop, progress);
    handle.stop();
    if !stop.is_raised() {
        let joined = handle.join();
        // Why something stays dirty says more than that it does.
        if let Ok(End::Drained(_)) = ended {
            joined?;
        }
        return ended;
    }
    // An origin that does not answer would hold the stop up; what is left undone is as after a kill.
    let (sender, joined) = mpsc::channel();
    thread::spawn(move || sender.send(handle.join()));
    let _ = joined.recv_timeout(STOP_MAX);
    Err(OfflineError::Interrupted(record.name.clone()))
}

/// Starts the server on a thread of its own, which is left behind if a stop is asked for; what it leaves undone is as after a kill.
fn start(config: ServerConfig, record: &VolumeRecord) -> Result<ServerHandle, OfflineError> {
    let stop = config.stop_wish.clone();
    let (sender, answer) = mpsc::channel();
    // Nobody may wait for it any more.
    let start = move || drop(sender.send(Server::start(config)));
    thread::Builder::new().name("start".into()).spawn(start).map_err(ServeError::system("start a thread"))?;
    loop {
        match answer.recv_timeout(ASK_EVERY) {
            Ok(Ok(handle)) => return Ok(handle),
            Ok(Err(_)) | Err(RecvTimeoutError::Timeout) if stop.is_raised() => {
                return Err(OfflineError::Interrupted(record.name.clone()));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ServeError::Stopped.into()),
        }
    }
}

/// Waits until nothing is dirty. `dirty` is what was before the server began: it may have written all of it back by the
/// time it is asked.
fn watch(
    handle: &ServerHandle,
    record: &VolumeRecord,
    dirty: u64,
    stop: &StopWish,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<End, OfflineError> {
    handle.drain(&record.name)?;
    let whole = dirty.max(left(&status(handle, record.id)?));
    let (mut least, mut since) = (whole, WatchedTime::begin());
    loop {
        if stop.is_raised() {
            return Err(OfflineError::Interrupted(record.name.clone()));
        }
        let status = status(handle, record.id)?;
        let left = left(&status);
        progress((whole.saturating_sub(left)) * BLOCK_SIZE, whole * BLOCK_SIZE);
        if left == 0 {
            return Ok(End::Drained(whole * BLOCK_SIZE));
        }
        if left <= status.damaged_blocks {
            return Ok(End::Damaged);
        }
        if left < least {
            (least, since) = (left, WatchedTime::begin());
        }
        let stuck_for = since.look();
        if status.counters.origin_errors > 0 && stuck_for > PATIENCE {
            return Ok(End::Stuck(origin_error(handle)));
        }
        thread::sleep(ASK_EVERY);
    }
}

/// Why the origin of the one volume cannot be written.
fn origin_error(handle: &ServerHandle) -> String {
    let errors = handle.status().ok().and_then(|status| status.origin_troubles.first()?.errors);
    let Some(last) = errors.map(|errors| errors.last) else { return "the origin cannot be written".into() };
    let cause = match last.cause {
        Cause::Errno(errno) => errno_text(errno),
        Cause::Short => "the device ends before".into(),
    };
    format!("the origin cannot be written: {} failed: {cause}", last.operation)
}

fn status(handle: &ServerHandle, volume: VolumeId) -> Result<VolumeStatus, ServeError> {
    let status = handle.status()?;
    let found = status.engine.volumes.into_iter().find(|status| status.volume == volume);
    found.ok_or(ServeError::Stopped)
}

/// Blocks that are dirty, or written back and not flushed.
fn left(status: &VolumeStatus) -> u64 {
    status.dirty_blocks + status.unflushed_blocks
}
