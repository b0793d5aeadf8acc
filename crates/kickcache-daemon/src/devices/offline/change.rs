//! Changes to a cache device that no daemon serves.

use std::path::{Path, PathBuf};

use kickcache_engine::config::{EngineSettings, RottedLog};
use kickcache_engine::device::Device;
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::tools::Demotion;
use kickcache_engine::units::{BlockIndex, BlockKey, ByteExtent, VolumeId};

use crate::devices::cache_device::{CacheDevice, store_superblock};
use crate::devices::offline::error::OfflineError;
use crate::devices::offline::stale_blocks::{Need, need};
use crate::devices::state::uuid_text;
use crate::driver::budget::Budget;
use crate::driver::clock::Clock;
use crate::driver::executor::{Driver, DriverSettings, Medium, NamedMedium};
use crate::driver::io_engine::IoEngine;
use crate::extents::extents;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::shell_command::Flag;

const REQUEST_BYTES: usize = 1 << 20;

/// Whether dirty blocks may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyBlocks {
    /// The change is refused if it would lose dirty blocks.
    Keep,
    /// The change is made, even if dirty blocks that the origin lacks are lost.
    Lose,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detached {
    pub clean_blocks: u64,
    pub lost: Vec<ByteExtent>,
    /// Dirty extents that the origin has, by the records.
    pub complete: Vec<ByteExtent>,
    pub uuid: [u8; 16],
    pub origin: String,
}

/// Demotes clean blocks, repairs a damaged copy of the superblock, and accepts the intact part of a damaged
/// log. Returns the number of dropped blocks; dirty blocks stay.
///
/// # Errors
/// If the device is in use or out of service, or cannot be read or written.
pub fn repair(path: &Path, damaged: &[BlockKey], state: &StatePlace) -> Result<u64, OfflineError> {
    let mut change = Change::open(path, RottedLog::Accepted, state)?;
    let mut demoted = 0;
    for key in damaged {
        demoted += u64::from(change.demote(key.volume(), key.block())?);
    }
    change.finish()?;
    change.store()?;
    Ok(demoted)
}

/// Removes a volume from a cache device: its blocks first, durably, then its name.
///
/// # Errors
/// If the device is in use, out of service or unusable, or has no such volume; if dirty blocks would be lost
/// although `dirty` keeps them; or if a record cannot be written.
pub fn detach(
    path: &Path,
    name: &str,
    dirty: DirtyBlocks,
    state: &StatePlace,
) -> Result<Detached, OfflineError> {
    let mut change = Change::open(path, RottedLog::Refused, state)?;
    let found = change.superblock.volume(name).map(|record| (record.id, record.origin_identity.clone()));
    let Some((volume, origin)) = found else {
        let known = change.superblock.volumes.iter().map(|record| record.name.clone()).collect();
        return Err(OfflineError::NoVolume { path: path.into(), name: name.into(), known });
    };
    let blocks = change.engine.dirty_blocks(volume);
    let (lost, complete) = match need(state, &change.superblock, &origin) {
        Need::Possible => (extents(&blocks), Vec::new()),
        Need::None => (Vec::new(), extents(&blocks)),
    };
    if !lost.is_empty() && dirty == DirtyBlocks::Keep {
        return Err(OfflineError::dirty(state, path, name, lost, Flag::bare("--lose-dirty")));
    }
    check_note(state, &change.superblock, &origin)?;
    let cached = change.engine.cached_blocks(volume);
    change.engine.drop_volume(volume);
    change.finish()?;
    change.superblock.volumes.retain(|record| record.id != volume);
    change.store()?;
    let clean_blocks = cached - u64::try_from(blocks.len()).unwrap_or(cached);
    Ok(Detached { clean_blocks, lost, complete, uuid: change.superblock.uuid, origin })
}

/// Refuses an unwritable state directory, before any change, if the record of an origin will be changed.
fn check_note(state: &StatePlace, superblock: &Superblock, origin: &str) -> Result<(), OfflineError> {
    let Some(store) = state.store() else { return Ok(()) };
    match store.origin(origin) {
        Ok(Some(note)) if note.cache_uuid == uuid_text(superblock.uuid) => Ok(store.keep_origin(&note)?),
        Ok(_) | Err(_) => Ok(()),
    }
}

struct Change {
    path: PathBuf,
    superblock: Superblock,
    engine: Engine,
    driver: Driver,
    clock: Clock,
}

impl Change {
    fn open(path: &Path, rotted_log: RottedLog, state: &StatePlace) -> Result<Change, OfflineError> {
        let cache = CacheDevice::existing(path)?;
        if cache.service()? != ServiceMark::InService {
            return Err(OfflineError::OutOfService { state: state.clone(), path: path.into() });
        }
        let superblock = cache.superblock;
        let settings = EngineSettings { rotted_log, ..EngineSettings::default() };
        let driver = Driver::open(DriverSettings {
            io_engine: IoEngine::Auto,
            budget: Budget::alone(REQUEST_BYTES),
            pool_pages: settings.pool_pages,
            media: vec![NamedMedium { device: Device::Cache, medium: Medium::File(cache.file) }],
        });
        let driver = driver.map_err(ServeError::system("set up input and output"))?;
        let clock = Clock::start();
        let refuse = |source| OfflineError::Content { path: path.into(), source };
        let engine = Engine::open(clock.now(), &superblock, settings, &[]).map_err(refuse)?;
        let mut change = Change { path: path.into(), superblock, engine, driver, clock };
        change.work_while(|engine| engine.phase() == Phase::Recovering)?;
        match change.engine.phase() {
            Phase::Failed(source) => Err(refuse(source)),
            Phase::Recovering | Phase::Running | Phase::Stopping | Phase::Stopped => Ok(change),
        }
    }

    fn work_while(&mut self, is_wanted: impl Fn(&Engine) -> bool) -> Result<(), OfflineError> {
        loop {
            self.pump();
            if !is_wanted(&self.engine) {
                return Ok(());
            }
            let until = self.engine.poll_timeout();
            if until.is_none() && self.driver.in_flight() == 0 {
                return Err(OfflineError::Stuck(self.path.clone()));
            }
            let waited = self.driver.wait(self.clock.now(), until);
            waited.map_err(ServeError::system("wait for the cache device"))?;
            let now = self.clock.now();
            if self.engine.poll_timeout().is_some_and(|due| due <= now) {
                self.engine.handle_timeout(now);
            }
        }
    }

    fn pump(&mut self) {
        let now = self.clock.now();
        let mut moved = true;
        while std::mem::take(&mut moved) {
            while let Some(submission) = self.engine.poll_submission() {
                self.driver.submit(now, submission);
                moved = true;
            }
            while let Some(completion) = self.driver.poll_completion(now) {
                self.engine.handle_completion(now, completion);
                moved = true;
            }
        }
    }

    /// Demotes a block if it is clean; returns whether it was clean.
    fn demote(&mut self, volume: VolumeId, block: BlockIndex) -> Result<bool, OfflineError> {
        loop {
            match self.engine.demote(volume, block) {
                Demotion::Done => return Ok(true),
                Demotion::Absent | Demotion::Dirty => return Ok(false),
                Demotion::Wait => {
                    let checkpoints = self.engine.status().counters.checkpoints;
                    self.work_while(|engine| {
                        let status = engine.status();
                        status.counters.checkpoints == checkpoints && status.health == CacheHealth::Good
                    })?;
                    self.check_health()?;
                }
            }
        }
    }

    fn finish(&mut self) -> Result<(), OfflineError> {
        self.engine.stop(self.clock.now());
        self.work_while(|engine| engine.phase() != Phase::Stopped)?;
        self.check_health()
    }

    fn check_health(&self) -> Result<(), OfflineError> {
        if self.engine.status().health == CacheHealth::Good {
            return Ok(());
        }
        let what = "it failed during a write; its present content is unknown".into();
        Err(ServeError::Cache { path: self.path.clone(), what }.into())
    }

    fn store(&mut self) -> Result<(), OfflineError> {
        self.superblock.journal = self.engine.stopped_journal().unwrap_or(self.superblock.journal);
        let file = self.driver.file(Device::Cache).expect("the cache device is a file or block device");
        Ok(store_superblock(file, &mut self.superblock)?)
    }
}
