//! The metadata of a cache device as the engine recovers them, without changing it.

use std::io;

use kickcache_engine::config::{EngineSettings, RottedLog, VolumeSettings};
use kickcache_engine::device::{Completion, Data, DeviceError, DeviceOperation, Submission};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;
use kickcache_units::show_bytes;

use crate::devices::offline::error::OfflineError;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::signature;

/// A recovered engine above a device that is only read.
pub(crate) struct Metadata {
    source: OfflineDevice,
    superblock: Superblock,
    engine: Engine,
}

impl Metadata {
    pub(crate) fn read(source: OfflineDevice) -> Result<Metadata, OfflineError> {
        Metadata::read_rotted(source, RottedLog::Refused)
    }

    /// As [`Metadata::read`]; if `rotted_log` permits that, from the intact part of a damaged log.
    pub(crate) fn read_rotted(
        source: OfflineDevice,
        rotted_log: RottedLog,
    ) -> Result<Metadata, OfflineError> {
        let refuse = |error| OfflineError::Content { path: source.path().into(), source: error };
        let superblock = superblock(&source)?;
        let engine = recover(&superblock, rotted_log, |extent| source.read(extent)).map_err(refuse)?;
        let engine = engine.ok_or_else(|| OfflineError::Stuck(source.path().into()))?;
        Ok(Metadata { source, superblock, engine })
    }

    pub(crate) fn source(&self) -> &OfflineDevice {
        &self.source
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

pub(super) fn superblock(source: &OfflineDevice) -> Result<Superblock, OfflineError> {
    let [first, second] = source.superblock_copies()?;
    match Superblock::decode([&first, &second], source.size()) {
        Ok(superblock) => Ok(superblock),
        Err(Error::NoSuperblock { .. }) => Err(foreign(source)?),
        Err(error) => Err(OfflineError::Content { path: source.path().into(), source: error }),
    }
}

fn foreign(source: &OfflineDevice) -> Result<OfflineError, OfflineError> {
    let (path, size) = (source.path().to_path_buf(), source.size());
    if size >= DEVICE_SIZE_MIN && source.is_blank().unwrap_or(false) {
        return Ok(OfflineError::Blank(path));
    }
    let found = match size {
        0..DEVICE_SIZE_MIN => {
            format!("has {size} bytes, and a cache device {} or more", show_bytes(DEVICE_SIZE_MIN))
        }
        _ => format!("holds {}", signature::name(&source.head(signature::LOOK_BYTES)?)),
    };
    Ok(OfflineError::Foreign { path, found })
}

/// Lets an engine recover from the data that `read` returns for its cache device; its writes are acknowledged
/// and dropped. `None` if it waits for an event that never occurs.
pub(super) fn recover(
    superblock: &Superblock,
    rotted_log: RottedLog,
    read: impl Fn(ByteExtent) -> io::Result<Vec<u8>>,
) -> Result<Option<Engine>, Error> {
    let volumes: Vec<_> = superblock.volumes.iter().map(|volume| VolumeSettings::new(volume.id)).collect();
    let settings = EngineSettings { rotted_log, ..EngineSettings::default() };
    let mut engine = Engine::open(Instant::ZERO, superblock, settings, &volumes)?;
    loop {
        match engine.phase() {
            Phase::Recovering => {}
            Phase::Running => return Ok(Some(engine)),
            Phase::Failed(error) => return Err(error),
            Phase::Stopping | Phase::Stopped => return Ok(None),
        }
        match (engine.poll_submission(), engine.poll_timeout()) {
            (Some(submission), _) => perform(&mut engine, &read, &submission),
            (None, Some(due)) => engine.handle_timeout(due),
            (None, None) => return Ok(None),
        }
    }
}

fn perform(engine: &mut Engine, read: impl Fn(ByteExtent) -> io::Result<Vec<u8>>, submission: &Submission) {
    let id = submission.id;
    let mut complete = |result| engine.handle_completion(Instant::ZERO, Completion { id, result });
    match &submission.operation {
        DeviceOperation::ReadMetadata { extent } => match read(*extent) {
            Ok(bytes) => complete(Ok(Data { bytes: &bytes, ..Data::default() })),
            Err(_) => complete(Err(DeviceError::Io)),
        },
        DeviceOperation::Read { .. } | DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => {
            complete(Err(DeviceError::Unsupported));
        }
        DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Write { .. }
        | DeviceOperation::WriteMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::WriteZeroes { .. } => complete(Ok(Data::default())),
    }
}
