//! From a configuration to a loop that can serve.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::{EngineSettings, Service, VolumeSettings};
use kickcache_engine::device::Device;
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::Record;
use kickcache_engine::time::earlier;
use kickcache_engine::units::VolumeId;
use kickcache_units::{are, counted};

use crate::devices::device_opening::{self, Prepared};
use crate::devices::journal_note::JournalNote;
use crate::devices::open_volume::{OpenVolume, OpenVolumeState};
use crate::devices::origin_checks::VolumeCheck;
use crate::devices::record_queue::RecordQueue;
use crate::driver::budget::Budget;
use crate::driver::clock::Clock;
use crate::driver::executor::{Driver, DriverSettings, NamedMedium};
use crate::plan::cache_spec::CacheService;
use crate::serve::config::ServerConfig;
use crate::serve::core::{Core, PreparedRequest};
use crate::serve::error::ServeError;
use crate::serve::event_loop::cache_takeover::CacheTakeover;
use crate::serve::event_loop::dirty_notes::WhileServed;
use crate::serve::event_loop::{EventLoop, Origins};
use crate::serve::frontend::nbd::settings::NbdSettings;
use crate::serve::frontend::{Addresses, Frontends};
use crate::serve::out_of_service::OutOfService;
use crate::serve::recovery::Recovery;
use crate::serve::served_volumes::Volume;
use crate::serve::stop_wait::StopWait;
use crate::serve::throttle::Throttles;
use crate::serve::troubles::Troubles;
use crate::serve::verbs::Control;
use crate::serve::verbs::exchange::RequestHold;
use crate::serve::verbs::resizes::RunningResizes;
use crate::serve::verbs::superblock_lease::SuperblockQueue;
use crate::shell_command::DaemonCommands;
use crate::wakeup::Wakeup;

pub(crate) fn start(
    mut config: ServerConfig,
    control: Receiver<Control>,
    wakeup: Arc<Wakeup>,
) -> Result<EventLoop<Engine>, ServeError> {
    device_opening::check(&config)?;
    let addresses = Addresses::of(&config.cache.volumes, std::mem::take(&mut config.inherited));
    let nbd = NbdSettings::of(&config)?;
    let service = config.cache.service;
    let Prepared { path, superblock, cache, volumes, mut made, notes } = match service {
        CacheService::InService | CacheService::WrittenBackOnly => Prepared::with_cache(&config)?,
        CacheService::LeftOut | CacheService::OutOfService => Prepared::without_cache(&config)?,
    };
    let checks: Vec<VolumeCheck> = volumes.iter().map(VolumeCheck::of).collect();
    let settings: Vec<VolumeSettings> = volumes.iter().map(|volume| volume.settings).collect();
    let AllServed { volumes: infos, mut media, throttles } = serve_all(volumes);
    media.push(NamedMedium { device: Device::Cache, medium: cache });
    let mut driver = open_driver(&config, media, &wakeup)?;
    if let Some(keeper) = notes.as_ref().and_then(|notes| notes.keeper()) {
        driver.keep_notes(keeper);
    }
    let is_used = service == CacheService::InService;
    let in_service = if is_used { Service::In } else { Service::Out };
    let engine_settings = engine_settings(&config, &superblock, in_service);
    let clock = Clock::start();
    let mut engine = Engine::open(clock.now(), &superblock, engine_settings, &settings)
        .map_err(|source| ServeError::Engine { path: path.clone(), source })?;
    engine.set_overtaken(config.overtaken);
    let mut core = Core::new(clock, engine, driver, infos, config.limits);
    core.throttles = throttles;
    let mut event_loop = EventLoop {
        core,
        frontends: Frontends::default(),
        cache: path,
        superblock,
        out_of_service: if is_used { OutOfService::Untold } else { OutOfService::Told(Record::ByOrder) },
        damaged: Vec::new(),
        control,
        note_queue: RecordQueue::new(Arc::clone(&wakeup)),
        resizes: RunningResizes::default(),
        growth: None,
        takeover: CacheTakeover::new(Arc::clone(&wakeup), config.cache.device),
        journal_note: JournalNote::new(Arc::clone(&wakeup)),
        write_budget: config.cache.write_budget,
        wakeup,
        troubles: Troubles::new(),
        notes,
        leaving: None,
        request_hold: RequestHold::None,
        superblock_queue: SuperblockQueue::default(),
        stop_wait: StopWait::default(),
        curve_turn: 0,
        recovery: Recovery::default(),
        origins: Origins::Compared,
        commands: DaemonCommands::new(config.state, config.control),
    };
    event_loop.recover()?;
    event_loop.compare_origins(service, &checks)?;
    let stale = event_loop.check_local_origins(service, &checks)?;
    if is_used {
        event_loop.check_cached(&checks, &stale)?;
    }
    event_loop.note_dirty(WhileServed::Yes);
    event_loop.frontends = Frontends::open(addresses, &mut event_loop.core, nbd)?;
    made.keep();
    Ok(event_loop)
}

fn engine_settings(config: &ServerConfig, superblock: &Superblock, service: Service) -> EngineSettings {
    EngineSettings {
        service,
        freed_segments: config.cache.freed_segments(),
        write_budget: config.cache.write_budget.map(|budget| budget.per_day(superblock.geometry.device_size)),
        ..config.engine
    }
}

fn open_driver(
    config: &ServerConfig,
    media: Vec<NamedMedium>,
    wakeup: &Arc<Wakeup>,
) -> Result<Driver, ServeError> {
    let budget = Budget::new(&config.memory, config.cache.volumes.len(), Arc::clone(wakeup));
    let (io_engine, pool_pages) = (config.io_engine, config.engine.pool_pages);
    let settings = DriverSettings { io_engine, budget, pool_pages, media };
    Driver::open(settings).map_err(ServeError::system("set up input and output"))
}

impl<E: CacheEngine> EventLoop<E> {
    /// Refuses a read-only origin whose volume has dirty blocks in the cache.
    fn check_read_only(&self) -> Result<(), ServeError> {
        let status = self.core.engine.status();
        for volume in self.core.volumes.iter().filter(|volume| volume.info.read_only) {
            let found = status.volumes.iter().find(|found| found.volume == volume.info.id);
            let dirty = found.map_or(0, |found| found.dirty_blocks);
            if dirty > 0 {
                let what = format!(
                    "the cache holds {} that its origin lacks; serve it writable and drain it before serving it read-only",
                    counted(dirty, "dirty block")
                );
                return Err(ServeError::Volume { name: volume.info.name.clone(), what });
            }
        }
        Ok(())
    }
}

impl EventLoop<Engine> {
    fn recover(&mut self) -> Result<(), ServeError> {
        self.remember_wear();
        let began = self.core.clock.now();
        while self.core.engine.phase() == Phase::Recovering {
            let now = self.core.clock.now();
            self.pump(now);
            if self.core.engine.phase() != Phase::Recovering {
                break;
            }
            self.tell_troubles(now);
            let until = earlier(
                self.core.engine.poll_timeout(),
                self.troubles.poll_timeout(self.core.driver.in_flight()),
            );
            self.core.driver.wait(now, until).map_err(ServeError::system("wait for the cache device"))?;
            let now = self.core.clock.now();
            if self.core.engine.poll_timeout().is_some_and(|due| due <= now) {
                self.core.engine.handle_timeout(now);
            }
        }
        if let Phase::Failed(source) = self.core.engine.phase() {
            return Err(ServeError::of_engine(&self.cache, source, &self.commands.state));
        }
        // Releases the memory for the large reads of the recovery.
        self.core.driver.buffers().allocator.keep_at_most(0);
        self.recovery = Recovery::new(began, self.core.clock.now(), &self.core.engine.status());
        let took = self.recovery.took.as_nanos() / 1_000_000;
        tracing::info!(event = "log_read", "the log was read in {took} ms");
        self.begin_times();
        Ok(())
    }

    fn check_cached(&mut self, checks: &[VolumeCheck], stale: &[VolumeId]) -> Result<(), ServeError> {
        let blocks: u64 = self.core.engine.status().volumes.iter().map(|volume| volume.cached_blocks).sum();
        tracing::info!(
            event = "cache_found",
            "{} {} cached on {}",
            counted(blocks, "block"),
            are(blocks),
            self.cache.display()
        );
        self.check_read_only()?;
        stale.iter().try_for_each(|volume| self.drop_clean(*volume))?;
        let mut changed = checks.iter().filter(|check| check.is_changed);
        changed.try_for_each(|check| self.drop_changed(check.volume))
    }
}

#[derive(Default)]
struct AllServed {
    volumes: Vec<Volume>,
    media: Vec<NamedMedium>,
    throttles: Throttles<PreparedRequest>,
}

fn serve_all(volumes: Vec<OpenVolume>) -> AllServed {
    let mut all = AllServed::default();
    for OpenVolumeState { volume, medium, client_cap } in volumes.into_iter().map(OpenVolume::into_served) {
        all.throttles.set(volume.info.id, client_cap);
        all.volumes.push(volume);
        all.media.push(medium);
    }
    all
}
