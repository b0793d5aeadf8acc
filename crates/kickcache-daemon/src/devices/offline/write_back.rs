//! Serves a volume without any client, to write its dirty blocks back.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::stats::VolumeStatus;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};

use crate::devices::offline::error::OfflineError;
use crate::driver::clock::WatchedTime;
use crate::driver::errno::errno_text;
use crate::driver::fault::Cause;
use crate::serve::config::ServerConfig;
use crate::serve::error::ServeError;
use crate::serve::server::{Server, ServerHandle};
use crate::serve::stop_wish::StopWish;
use crate::signals::{self, Wish};

const ASK_EVERY: Duration = Duration::from_millis(50);
/// The longest wait of an interrupted drain for the stop of its server.
const STOP_MAX: Duration = Duration::from_secs(1);
/// The longest time without progress, if the origin has failed an operation since the start.
const PATIENCE: Duration = Duration::from_secs(15);

/// The end of a drain.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum End {
    Drained(u64),
    /// The remaining dirty blocks are damaged.
    Damaged,
    Stuck(String),
}

pub(super) fn write_back(
    config: ServerConfig,
    record: &VolumeRecord,
    dirty: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<End, OfflineError> {
    let stop = config.stop_wish.clone();
    let raised = stop.clone();
    // A shell makes background commands ignore SIGINT; caught signals end a start nevertheless.
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
        // The reason for remaining dirty blocks is more useful than their number.
        if let Ok(End::Drained(_)) = ended {
            joined?;
        }
        return ended;
    }
    // An unresponsive origin would delay the stop; the cache device is then as after a kill.
    let (sender, joined) = mpsc::channel();
    thread::spawn(move || sender.send(handle.join()));
    let _ = joined.recv_timeout(STOP_MAX);
    Err(OfflineError::Interrupted(record.name.clone()))
}

/// Starts the server on a thread of its own, which is abandoned after a stop request.
fn start(config: ServerConfig, record: &VolumeRecord) -> Result<ServerHandle, OfflineError> {
    let stop = config.stop_wish.clone();
    let (sender, answer) = mpsc::channel();
    // The receiver may be dropped.
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

/// Waits until no block is dirty or unflushed, or the remaining ones cannot be written back. `dirty` is the
/// number of blocks to write back.
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
        if let Some(end) = end(&status, whole) {
            return Ok(end);
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

/// The end of a drain of this many blocks, if no further block can be written back.
fn end(status: &VolumeStatus, whole: u64) -> Option<End> {
    match left(status) {
        0 => Some(End::Drained(whole * BLOCK_SIZE)),
        left if left <= status.damaged_blocks => Some(End::Damaged),
        _ => None,
    }
}

/// Blocks that are dirty, or written back and not flushed.
fn left(status: &VolumeStatus) -> u64 {
    status.dirty_blocks + status.unflushed_blocks
}

#[cfg(test)]
mod tests {
    use kickcache_engine::config::Mode;
    use kickcache_engine::stats::VolumeCounters;
    use kickcache_engine::time::Instant;

    use super::*;
    use crate::plan::origin_source::OriginSource;
    use crate::plan::volume_spec::VolumeSpec;

    /// The end of a drain of 9 blocks with these blocks left.
    fn end_with(dirty_blocks: u64, unflushed_blocks: u64, damaged_blocks: u64) -> Option<End> {
        let status = VolumeStatus {
            volume: VolumeId::new(0),
            mode: Mode::WriteBack,
            settings: VolumeSpec::new("v", OriginSource::Path("/origin".into())).settings(),
            size: 1 << 20,
            cached_blocks: 9,
            dirty_blocks,
            dirty_since: None,
            damaged_blocks,
            unflushed_blocks,
            is_draining: true,
            paused_until: Instant::ZERO,
            fill_window: 4096,
            requests_in_flight: 0,
            is_incomplete: false,
            counters: VolumeCounters::default(),
        };
        end(&status, 9)
    }

    #[test]
    fn a_drain_ends_without_blocks_to_write_back() {
        assert_eq!(end_with(0, 0, 0), Some(End::Drained(9 * BLOCK_SIZE)));
        assert_eq!(end_with(3, 0, 3), Some(End::Damaged));
        for (dirty, unflushed, damaged) in [(1, 0, 0), (0, 1, 0), (3, 0, 2), (3, 1, 3)] {
            assert_eq!(end_with(dirty, unflushed, damaged), None, "{dirty} {unflushed} {damaged}");
        }
    }
}
