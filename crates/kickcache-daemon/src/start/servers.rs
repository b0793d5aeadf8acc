//! Turns a plan into servers.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, bail};
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::Size;

use crate::control::ControlError;
use crate::control::wire::LeftOnCache;
use crate::devices::device_opening::check_origin;
use crate::devices::missed_device::uuid_at;
use crate::devices::offline::replacement::find_taken_in;
use crate::devices::succession::{find_cache, follow};
use crate::driver::device::answers::silent_devices;
use crate::driver::device::check_distinct;
use crate::driver::payload_memory::PayloadMemory;
use crate::plan::ServePlan;
use crate::plan::cache_spec::{CacheService, CacheSpec, SkippedVolume};
use crate::plan::removal::only_volume;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::{NamedSettings, Server, ServerHandle, UncleanBlocks};
use crate::serve::stop_wish::StopWish;
use crate::shell_command::ShellCommand;
use crate::start::folders::tell_shared_state;
use crate::start::refusal::Refusals;
use crate::start::rehearsal::{Common, Rehearsal};
use crate::start::service_decision::decide_service;
use crate::start::skipped_volumes::tell_unserved;
use crate::start::socket_activation::ActivationSockets;
use crate::whole_path::{real_path, shown_path};

/// A server and its part of the plan.
#[derive(Clone)]
pub(crate) struct PlannedServer {
    pub(crate) handle: ServerHandle,
    pub(crate) cache: CacheSpec,
}

/// The result of starting a plan.
#[derive(Clone)]
pub(crate) struct StartResult {
    pub(crate) servers: Vec<PlannedServer>,
    /// Volumes of the plan that are not served.
    pub(crate) unserved: Vec<SkippedVolume>,
    pub(crate) added: BTreeSet<String>,
}

impl StartResult {
    /// The servers with their present cache devices.
    pub(crate) fn looked_at(mut self) -> StartResult {
        for served in &mut self.servers {
            served.cache.device = served.handle.device();
        }
        self
    }

    pub(crate) fn server_mut(&mut self, name: &str) -> Option<&mut PlannedServer> {
        self.servers.iter_mut().find(|served| served.cache.names().any(|known| known == name))
    }

    pub(crate) fn behind<'a>(
        &'a self,
        names: &'a [String],
    ) -> impl Iterator<Item = (&'a PlannedServer, &'a str)> {
        let serves = |served: &&PlannedServer, name: &str| served.cache.names().any(|known| known == name);
        names.iter().filter_map(move |name| {
            Some((self.servers.iter().find(|served| serves(served, name))?, name.as_str()))
        })
    }

    /// The index of the server of a cache device; a device that it replaced names it, too.
    pub(crate) fn position(&self, named: &Path) -> Option<usize> {
        let is_at = |device: &Path, other: &Path| real_path(device) == real_path(other);
        let at = |path: &Path| self.servers.iter().position(|served| is_at(&served.cache.device, path));
        let instead = |path: &Path| {
            let is_former =
                |served: &PlannedServer| served.cache.former.iter().any(|former| is_at(former, path));
            self.servers.iter().position(is_former)
        };
        let found = |path: &Path| at(path).or_else(|| instead(path));
        found(named).or_else(|| found(&follow(named).device))
    }

    /// The server of a cache device; without a name, the only server.
    ///
    /// # Errors
    /// If no server has the device; without a name, if there is not exactly one server.
    pub(crate) fn server_with(&self, device: Option<&str>) -> Result<PlannedServer, ControlError> {
        let servers = &self.servers;
        let name = |served: &PlannedServer| shown_path(&served.cache.device);
        let found = match device {
            Some(device) => self.position(Path::new(device)).map(|index| &servers[index]),
            None => servers.first().filter(|_| servers.len() == 1),
        };
        match found {
            Some(served) => Ok(served.clone()),
            None => {
                let known: Vec<String> = servers.iter().map(name).collect();
                let what = match device {
                    Some(device) => format!("there is no cache device {device} here"),
                    None => "there are several cache devices here, name one".to_owned(),
                };
                Err(ControlError::Refused(format!("{what}; there is {}", known.join(", "))))
            }
        }
    }

    pub(crate) fn note_reasons(&mut self, newer: Vec<SkippedVolume>) {
        for newer in newer {
            if let Some(known) = self.unserved.iter_mut().find(|known| known.name == newer.name) {
                *known = newer;
            }
        }
    }

    pub(crate) fn is_unserved(&self, name: &str) -> bool {
        self.unserved.iter().any(|unserved| unserved.name == name)
    }

    /// Records that a volume is served by the server with an index.
    pub(crate) fn take_in(&mut self, index: usize, spec: VolumeSpec) {
        self.unserved.retain(|unserved| unserved.name != spec.name);
        self.servers[index].cache.volumes.push(spec);
    }
}

impl PlannedServer {
    /// Takes over the present modes of the volumes.
    pub(crate) fn look_at_modes(&mut self) {
        let Ok(status) = self.handle.status() else { return };
        for volume in &mut self.cache.volumes {
            let info = status.volumes.iter().find(|info| info.name == volume.name);
            let found =
                info.and_then(|info| status.engine.volumes.iter().find(|found| found.volume == info.id));
            volume.mode = found.map_or(volume.mode, |found| found.mode.into());
        }
    }

    pub(crate) fn settings(&self) -> Vec<NamedSettings> {
        let named = |volume: &VolumeSpec| NamedSettings {
            volume: volume.name.clone(),
            settings: volume.settings(),
            client_cap: volume.client_cap(),
        };
        self.cache.volumes.iter().map(named).collect()
    }

    /// Refuses the removal of the only volume of a server.
    ///
    /// # Errors
    /// If the server has no other volume.
    pub(crate) fn check_others(&self, volume: &str) -> Result<(), ControlError> {
        match self.cache.volumes.len() {
            1 => Err(ControlError::Refused(format!("volume {volume}: {}", only_volume(&self.cache.device)))),
            _ => Ok(()),
        }
    }

    /// The size of the cache device; `None` if its server gives no status.
    pub(crate) fn size(&self) -> Option<Size> {
        Some(Size::from_bytes(self.handle.status().ok()?.cache_size))
    }

    /// Waits for the server's end; returns volumes with blocks that are left on the cache device.
    ///
    /// # Errors
    /// The error that ended the server.
    pub(crate) fn wait(&self, state: &StatePlace) -> anyhow::Result<Vec<LeftOnCache>> {
        let end = self.handle.join();
        let path = self.handle.device();
        let device = path.display();
        if let Err(error) = &end {
            tracing::error!(event = "server_ended", device = %device, "the server of the cache device {device} ended: {error}");
        }
        let left = |UncleanBlocks { volume, blocks, .. }| LeftOnCache {
            drain: ShellCommand::drain_offline(&volume, &path).state(state).to_string(),
            volume,
            bytes: blocks * BLOCK_SIZE,
            device: shown_path(&path),
        };
        let end = end.with_context(|| format!("the server of the cache device {device} ended"))?;
        Ok(end.into_iter().map(left).collect())
    }
}

/// Starts the servers of a plan.
///
/// # Errors
/// If an error concerns the whole plan, or no volume can be served.
pub(crate) fn start_servers(
    mut plan: ServePlan,
    activated: ActivationSockets,
    stop_wish: &StopWish,
) -> anyhow::Result<StartResult> {
    let state = StatePlace::named(plan.state.as_deref());
    let control = plan.control.clone();
    let (io_engine, exposure, tls) = (plan.io_engine, plan.exposure, plan.tls.clone());
    // A defect of the certificates concerns all servers.
    tls.open().map_err(ServeError::from)?;
    let volumes = plan.caches.iter().map(|cache| cache.volumes.len()).sum();
    let memory = PayloadMemory::new(plan.memory_limit.bytes(), volumes);
    let common = Common {
        io_engine,
        memory: &memory,
        exposure,
        tls: &tls,
        state: &state,
        control: &control,
        stop_wish,
    };
    let mut refusals = Refusals::of(&plan, &state);
    let silent = silent_devices(&devices(&plan));
    refusals.leave_silent(&mut plan.caches, silent)?;
    let mut unserved = tell_unserved(&mut plan)?;
    for cache in &mut plan.caches {
        let found = find_cache(cache, &state).map_err(anyhow::Error::from);
        let found = found.and_then(|()| Ok(find_taken_in(cache, &state)?));
        let found = found.and_then(|()| Ok(find_cache(cache, &state)?));
        found.or_else(|error| refusals.leave_all(cache, error))?;
    }
    unserved.extend(tell_unserved(&mut plan)?);
    check_distinct(devices(&plan))?;
    check_copies(&plan.caches)?;
    // Origins are checked before `decide_service`, which may drop blocks.
    check_origins(&mut plan.caches, &refusals, stop_wish)?;
    unserved.extend(tell_unserved(&mut plan)?);
    let rehearsal = Rehearsal { common: &common, refusals: &refusals };
    for cache in &mut plan.caches {
        decide_service(cache, &state, &rehearsal).or_else(|error| refusals.leave_all(cache, error))?;
    }
    unserved.extend(tell_unserved(&mut plan)?);
    // The other cache devices are checked before the first one is formatted.
    for cache in plan.caches.iter_mut().skip(1) {
        rehearsal.whole(cache)?;
    }
    unserved.extend(tell_unserved(&mut plan)?);
    let servers = start_all(&mut plan.caches, activated, &common, &refusals)?;
    tell_shared_state(&state);
    unserved.extend(tell_unserved(&mut plan)?);
    Ok(StartResult { servers, unserved, added: BTreeSet::new() })
}

/// Goes on with interrupted replacements of cache devices.
pub(crate) fn go_on_replacing(servers: &[PlannedServer]) {
    for PlannedServer { handle, cache, .. } in servers {
        let Some(path) = cache.successor.clone() else { continue };
        let (handle, device) = (handle.clone(), cache.device.clone());
        let go_on = move || {
            if let Err(error) = handle.go_on_taking_over(&path) {
                let device = device.display();
                tracing::warn!(
                    event = "cache_replacement_failed",
                    "the replacement of {device} does not go on: {error}"
                );
            }
        };
        // If no thread can be started, the next start continues the operation.
        drop(thread::Builder::new().name("replace".into()).spawn(go_on));
    }
}

/// Starts the servers in parallel, so that their waits do not add up.
fn start_all(
    caches: &mut [CacheSpec],
    activated: ActivationSockets,
    common: &Common<'_>,
    refusals: &Refusals<'_>,
) -> anyhow::Result<Vec<PlannedServer>> {
    // Activated sockets are for the only volume of a plan, so the first server gets them.
    let sockets = iter::once(activated).chain(iter::repeat_with(ActivationSockets::default));
    let started: Vec<anyhow::Result<Option<PlannedServer>>> = thread::scope(|scope| {
        let start = |(cache, sockets)| {
            let start = move || start_server(cache, sockets, common, refusals);
            thread::Builder::new().spawn_scoped(scope, start).context("cannot start a thread")
        };
        let starting: Vec<_> = caches.iter_mut().zip(sockets).map(start).collect();
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        starting.into_iter().map(|thread| thread.and_then(join)).collect()
    });
    let (mut servers, mut failure) = (Vec::new(), None);
    for started in started {
        match started {
            Ok(served) => servers.extend(served),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let Some(error) = failure else { return Ok(servers) };
    servers.iter().for_each(|served| served.handle.stop());
    let _: Vec<_> = servers.iter().map(|served| served.handle.join()).collect();
    Err(error)
}

/// Refuses two cache devices in service with one uuid: one is a copy of the other.
fn check_copies(caches: &[CacheSpec]) -> anyhow::Result<()> {
    let mut seen: Vec<(String, &Path)> = Vec::new();
    let in_service =
        |cache: &&CacheSpec| cache.service == CacheService::InService && !cache.volumes.is_empty();
    for cache in caches.iter().filter(in_service) {
        let Some(uuid) = uuid_at(&cache.device) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == uuid) {
            bail!(
                "{} is a copy of the cache device {}, or the reverse (both have the uuid {uuid}); serve \
                 the one that was served last, and remove the other one and its volumes from the \
                 configuration",
                cache.device.display(),
                other.display()
            );
        }
        seen.push((uuid, &cache.device));
    }
    Ok(())
}

/// Skips volumes with unusable origins, if the plan has several volumes.
fn check_origins(
    caches: &mut [CacheSpec],
    refusals: &Refusals<'_>,
    stop_wish: &StopWish,
) -> anyhow::Result<()> {
    if !refusals.has_neighbours() {
        return Ok(());
    }
    let mut remote = check_servers(caches, stop_wish);
    for (index, cache) in caches.iter_mut().enumerate() {
        for volume in cache.volumes.clone() {
            let place = VolumePlace { cache: index, volume: volume.name.clone() };
            let checked = remote.remove(&place);
            let checked = checked.unwrap_or_else(|| check_origin(&volume, stop_wish));
            checked.or_else(|error| refusals.leave(cache, error))?;
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct VolumePlace {
    /// The index of its cache device.
    cache: usize,
    volume: String,
}

/// Checks the remote origins in parallel, so that the waits for their servers do not add up.
fn check_servers(
    caches: &[CacheSpec],
    stop_wish: &StopWish,
) -> BTreeMap<VolumePlace, Result<(), ServeError>> {
    thread::scope(|scope| {
        let mut checks = Vec::new();
        for (index, cache) in caches.iter().enumerate() {
            let has_server = |volume: &&VolumeSpec| volume.origin.has_server();
            for volume in cache.volumes.iter().filter(has_server) {
                let check = thread::Builder::new().spawn_scoped(scope, || check_origin(volume, stop_wish));
                let place = VolumePlace { cache: index, volume: volume.name.clone() };
                checks.extend(check.ok().map(|check| (place, check)));
            }
        }
        // The caller checks the origins that have no result here.
        checks.into_iter().filter_map(|(place, check)| Some((place, check.join().ok()?))).collect()
    })
}

/// Starts the server of a cache device; `None` if all of its volumes are left out.
fn start_server(
    cache: &mut CacheSpec,
    mut activated: ActivationSockets,
    common: &Common<'_>,
    refusals: &Refusals<'_>,
) -> anyhow::Result<Option<PlannedServer>> {
    while !cache.volumes.is_empty() {
        let mut config = common.config(cache);
        config.inherited = std::mem::take(&mut activated).into_inherited();
        match Server::start(config) {
            Ok(handle) => return Ok(Some(PlannedServer { handle, cache: cache.clone() })),
            Err(error) => refusals.leave(cache, error)?,
        }
    }
    Ok(None)
}

fn devices(plan: &ServePlan) -> Vec<&Path> {
    let caches = plan.caches.iter().map(|cache| cache.device.as_path());
    let volumes = plan.caches.iter().flat_map(|cache| &cache.volumes);
    caches.chain(volumes.filter_map(|volume| volume.origin.path())).collect()
}
