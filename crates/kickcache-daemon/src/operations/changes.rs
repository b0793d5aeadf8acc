//! Changes to the served volumes of a running daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::config::plan_source::{PlanSource, PlanSourceError};
use crate::control::ControlError;
use crate::control::wire::{DirtyVolume, Reloaded, Removed, ReplacementOrder, VolumeToAdd};
use crate::devices::succession::follow;
use crate::operations::control_error::control_error;
use crate::operations::devices_in_file::{follow_taken_in, leave_unserved, replaced_in_file};
use crate::operations::kept_state::{keep_activation, keep_added, know_grown, leave_alone};
use crate::operations::leave_out::LeaveOutOperation;
use crate::operations::operation_lock::{OperationGuard, Operations};
use crate::operations::places_change::ReadyPlaces;
use crate::operations::reload_result::{ChangesMade, FailedReload};
use crate::operations::remove::RemoveOperation;
use crate::operations::take_in;
use crate::operations::volume_addition::{self, ReadyVolume, check_promised};
use crate::plan::ServePlan;
use crate::plan::address::NbdAddress;
use crate::plan::cache_spec::{CacheService, CacheSpec, SkippedVolume};
use crate::plan::conflicts::check_free;
use crate::plan::difference::difference;
use crate::plan::plan_change::PlanChange;
use crate::plan::removal::{Clients, DirtyFate};
use crate::plan::room::RoomBounds;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::NamedSettings;
use crate::start::folders::{MissingFolders, make_runtime_dir};
use crate::start::servers::{PlannedServer, StartResult};
use crate::start::unserved_volumes::orphans;
use crate::whole_path::{real_path, shown_path};

/// The configuration at the start, and the lock that admits one change at a time.
pub(crate) struct Changes {
    source: PlanSource,
    /// The plan at the start; the present state is in [`StartResult`].
    plan: ServePlan,
    under_way: Operations,
}

/// A change has its turn while this lives.
pub(crate) struct Turn<'a> {
    changes: &'a Changes,
    _begun: OperationGuard<'a>,
}

impl Changes {
    pub(crate) fn new(source: PlanSource, plan: ServePlan) -> Changes {
        Changes { source, plan, under_way: Operations::default() }
    }

    pub(crate) fn plan(&self) -> &ServePlan {
        &self.plan
    }

    /// A hint that the next start may not serve a volume that a command added.
    pub(crate) fn hint_of_added(&self, name: &str) -> Option<String> {
        let Some(path) = self.source.path() else {
            return Some(format!(
                "{name} is not served after a restart, unless the flags of the next start name it"
            ));
        };
        let is_named =
            |plan: ServePlan| plan.caches.iter().any(|cache| cache.names().any(|known| known == name));
        if self.source.read().is_ok_and(is_named) {
            return None;
        }
        let file = path.display();
        Some(format!("{name} is not in {file}: the next start serves it only if it is added there"))
    }

    pub(crate) fn has_file(&self) -> bool {
        self.source.is_file()
    }

    /// Waits until no other change is in progress, with a time limit.
    ///
    /// # Errors
    /// If the change in progress takes too long.
    pub(crate) fn turn(&self, what: &str) -> Result<Turn<'_>, ControlError> {
        Ok(Turn { changes: self, _begun: self.under_way.begin(what)? })
    }

    /// The change in progress, and the volumes and cache devices that are about to go.
    pub(crate) fn under_way(&self) -> &Operations {
        &self.under_way
    }

    /// The present plan of the configuration file and its difference to the served volumes.
    ///
    /// # Errors
    /// If the file cannot be used, or the daemon cannot apply a difference while it runs.
    pub(crate) fn compare(&self, started: &mut StartResult) -> Result<PlanComparison, ControlError> {
        let mut wanted = self.source.read().map_err(|error| refusal(&error))?;
        let mut notes = Vec::new();
        for cache in &mut wanted.caches {
            let followed = follow(&cache.device).device;
            notes.extend(replaced_in_file(&cache.device, &followed));
            cache.device = followed;
            let meant = real_path(&cache.device);
            let mut known = started.servers.iter().map(|served| &served.cache.device);
            if let Some(known) = known.find(|known| real_path(known) == meant) {
                cache.device.clone_from(known);
            }
        }
        notes.extend(follow_taken_in(&mut wanted, started));
        started.servers.iter_mut().for_each(PlannedServer::look_at_modes);
        let mut served = self.served(started);
        let named = wanted.caches.iter().flat_map(CacheSpec::names).map(str::to_owned).collect();
        notes.extend(leave_unserved(&mut wanted, &served, &self.plan));
        keep_activation(&mut wanted, &served);
        know_grown(&mut served, &wanted, started);
        notes.extend(keep_added(&mut wanted, started));
        notes.extend(leave_alone(&self.under_way.leaving(), [&mut served, &mut wanted]));
        notes
            .extend(orphans(started).into_iter().map(|SkippedVolume { name, why }| format!("{name}: {why}")));
        let changes =
            difference(&served, &wanted).map_err(|error| ControlError::Refused(error.to_string()))?;
        Ok(PlanComparison { wanted, named, reloaded: Reloaded { changes, notes } })
    }

    fn served(&self, started: &StartResult) -> ServePlan {
        let caches = started.servers.iter().map(|served| served.cache.clone()).collect();
        ServePlan { caches, ..self.plan.clone() }
    }
}

/// The plan of a file, compared with the served volumes.
pub(crate) struct PlanComparison {
    wanted: ServePlan,
    named: BTreeSet<String>,
    pub(crate) reloaded: Reloaded,
}

impl Turn<'_> {
    /// Applies the present configuration file. `started` then has the served volumes.
    ///
    /// # Errors
    /// If the plan is refused, the daemon is unchanged; if a step fails after all checks, the steps before it stay.
    pub(crate) fn reload(&self, started: &mut StartResult) -> Result<Reloaded, FailedReload> {
        let PlanComparison { wanted, named, mut reloaded } = self.changes.compare(started)?;
        if !reloaded.changes.is_empty() {
            let planned = reloaded.changes.clone();
            let applied = self.apply(started, &wanted, &mut reloaded);
            applied.map_err(|error| FailedReload { error, made: self.made(started, planned) })?;
        }
        started.unserved.retain(|unserved| named.contains(&unserved.name));
        Ok(reloaded)
    }

    /// The changes that a reload would make. New devices and sockets are opened, and closed again; volumes to
    /// be removed may still have clients.
    ///
    /// # Errors
    /// As a reload, as far as it can be checked in advance.
    pub(crate) fn check_reload(&self, started: &mut StartResult) -> Result<Reloaded, ControlError> {
        let PlanComparison { wanted, mut reloaded, .. } = self.changes.compare(started)?;
        let folders = MissingFolders::of(&wanted);
        let checked = open_new(started, &wanted, &mut reloaded).map(drop);
        folders.remove_again();
        checked.map(|()| reloaded)
    }

    fn made(&self, started: &mut StartResult, planned: Vec<PlanChange>) -> ChangesMade {
        match self.changes.compare(started) {
            Ok(PlanComparison { reloaded: rest, .. }) => {
                let is_made = |change: &PlanChange| !rest.changes.contains(change);
                ChangesMade::These(planned.into_iter().filter(is_made).collect())
            }
            Err(_) => ChangesMade::Unknown,
        }
    }

    fn apply(
        &self,
        started: &mut StartResult,
        wanted: &ServePlan,
        reloaded: &mut Reloaded,
    ) -> Result<(), ControlError> {
        let gone = removed(&reloaded.changes);
        let gone = started.behind(&gone).map(|(served, name)| {
            RemoveOperation::check(served, name, Clients::Respected, DirtyFate::WrittenBack)
        });
        let gone: Vec<RemoveOperation> = gone.collect::<Result<_, _>>()?;
        let ready = open_new(started, wanted, reloaded)?;
        let drained = gone.iter().try_for_each(RemoveOperation::drain);
        let parted = drained.and_then(|()| gone.iter().try_for_each(|gone| part(started, gone).map(drop)));
        if parted.is_err() {
            gone.iter().for_each(RemoveOperation::restore_mode);
        }
        parted?;
        join(started, ready)?;
        started
            .servers
            .iter_mut()
            .try_for_each(|served| change_settings(served, wanted))
            .map_err(control_error)
    }

    /// Serves one more volume, or in a dry run checks that; a volume that is served in the same way already stays
    /// as it is.
    ///
    /// # Errors
    /// If the volume cannot be served; the daemon is then unchanged.
    pub(crate) fn add(&self, started: &mut StartResult, wanted: &VolumeToAdd) -> Result<(), ControlError> {
        let wrong = |error: &dyn std::fmt::Display| ControlError::Wrong(error.to_string());
        let spec = wanted.spec().map_err(|error| wrong(&error))?;
        let mut plan = self.changes.served(started);
        let known: Vec<String> = plan.caches.iter().map(|cache| cache.device.display().to_string()).collect();
        let index = started.position(&wanted.cache).ok_or_else(|| {
            let (cache, known) = (wanted.cache.display(), known.join(", "));
            ControlError::Refused(format!("the cache device {cache} is not served here; there is {known}"))
        })?;
        if plan.caches[index].volumes.contains(&spec) {
            return Ok(());
        }
        check_free(&plan, &spec).map_err(|taken| ControlError::Refused(taken.to_string()))?;
        plan.caches[index].volumes.push(spec.clone());
        plan.check().map_err(|error| wrong(&error))?;
        let served = &mut started.servers[index];
        self.changes.under_way.check_device_stays(shown_path(&served.handle.device()))?;
        if spec.room_min.is_some() || spec.room_max.is_some() {
            check_promised(&served.handle, &plan.caches[index].volumes).map_err(control_error)?;
        }
        let folders = MissingFolders::of(&plan);
        make_runtime_dir(&plan).map_err(|error| ControlError::Refused(format!("{error:#}")))?;
        let ready = volume_addition::prepare(&served.handle, &spec, &[]).map_err(control_error);
        if wanted.dry_run {
            let checked = ready.map(drop);
            folders.remove_again();
            return checked;
        }
        volume_addition::join(&served.handle, ready?).map_err(control_error)?;
        started.take_in(index, spec.clone());
        started.added.insert(spec.name);
        Ok(())
    }

    /// Serves the volumes of a cache device without it; returns the lost blocks.
    ///
    /// # Errors
    /// If the device cannot be left out.
    pub(crate) fn leave_out(
        &self,
        started: &mut StartResult,
        device: &Path,
        leaving_out: &LeaveOutOperation,
    ) -> Result<Vec<DirtyVolume>, ControlError> {
        let lost = leaving_out.leave_out()?;
        let left = started.servers.iter_mut().filter(|served| served.cache.device == device);
        left.for_each(|served| served.cache.service = CacheService::LeftOut);
        Ok(lost)
    }

    /// Takes a cache device in where volumes are served without one.
    ///
    /// # Errors
    /// If the device is not taken in.
    pub(crate) fn take_in(
        &self,
        started: &mut StartResult,
        device: &Path,
        order: &ReplacementOrder,
    ) -> Result<(), ControlError> {
        let state = StatePlace::named(self.changes.plan.state.as_deref());
        let mut served = started.servers.iter_mut().filter(|served| served.cache.device == device);
        served.try_for_each(|served| take_in::take_in(served, order, &state))
    }

    /// Stops serving a volume.
    ///
    /// # Errors
    /// If the volume cannot be removed; it stays, except if its removal cannot be recorded on the cache device.
    pub(crate) fn remove(
        &self,
        started: &mut StartResult,
        removal: &RemoveOperation,
    ) -> Result<Removed, ControlError> {
        let removed = part(started, removal)?;
        started.added.remove(removal.volume());
        Ok(removed)
    }
}

fn part(started: &mut StartResult, removal: &RemoveOperation) -> Result<Removed, ControlError> {
    let volume = removal.volume();
    let gone = || ControlError::Refused(format!("volume {volume}: it is not served any more"));
    let served = started.server_mut(volume).ok_or_else(gone)?;
    served.check_others(volume)?;
    let removed = removal.part()?;
    served.cache.volumes.retain(|spec| spec.name != volume);
    Ok(removed)
}

fn removed(changes: &[PlanChange]) -> Vec<String> {
    let name = |change: &PlanChange| match change {
        PlanChange::VolumeRemoved { volume, .. } => Some(volume.clone()),
        PlanChange::VolumeAdded { .. }
        | PlanChange::CacheSetting { .. }
        | PlanChange::Setting { .. }
        | PlanChange::PlaceAdded { .. }
        | PlanChange::PlaceRemoved { .. } => None,
    };
    changes.iter().filter_map(name).collect()
}

/// Opened volumes and places that a server does not use yet.
struct Ready {
    index: usize,
    volumes: Vec<(VolumeSpec, ReadyVolume)>,
    places: Vec<(VolumeSpec, ReadyPlaces)>,
}

/// Checks reservations, and opens new devices and sockets.
fn open_new(
    started: &mut StartResult,
    wanted: &ServePlan,
    reloaded: &mut Reloaded,
) -> Result<Vec<Ready>, ControlError> {
    let known =
        started.servers.iter().filter_map(|served| Some((served, wanted.cache(&served.cache.device)?)));
    for (served, cache) in known.filter(|(served, cache)| has_other_rooms(&served.cache, cache)) {
        check_promised(&served.handle, &cache.volumes).map_err(control_error)?;
    }
    make_runtime_dir(wanted).map_err(|error| ControlError::Refused(format!("{error:#}")))?;
    prepare(started, wanted, reloaded)
}

fn prepare(
    started: &mut StartResult,
    wanted: &ServePlan,
    reloaded: &mut Reloaded,
) -> Result<Vec<Ready>, ControlError> {
    let (mut all, mut skipped) = (Vec::new(), Vec::new());
    for (index, served) in started.servers.iter().enumerate() {
        let Some(cache) = wanted.cache(&served.cache.device) else { continue };
        let mut ready = Ready { index, volumes: Vec::new(), places: Vec::new() };
        // Volumes join before places change, so these addresses are open when a later volume or place shares them.
        let mut opened: Vec<NbdAddress> = Vec::new();
        for volume in &cache.volumes {
            let known = served.cache.volumes.iter().find(|known| known.name == volume.name);
            match known {
                Some(known) if !has_same_places(known, volume) => {
                    let places = ReadyPlaces::prepare(&served.handle, known, volume, &opened)
                        .map_err(control_error)?;
                    ready.places.push((volume.clone(), places));
                }
                Some(_) => {}
                None => match volume_addition::prepare(&served.handle, volume, &opened) {
                    Ok(open) => {
                        opened.extend(volume.served_by().nbd.addresses().iter().cloned());
                        ready.volumes.push((volume.clone(), open));
                    }
                    Err(error) if started.is_unserved(&volume.name) => {
                        let name = &volume.name;
                        reloaded.changes.retain(|change| change.volume() != Some(name));
                        reloaded.notes.push(format!("{name}: it is still not served: {error}"));
                        let why = error.to_string();
                        let why = why.strip_prefix(&format!("volume {name}: ")).unwrap_or(&why).into();
                        skipped.push(SkippedVolume { name: name.clone(), why });
                    }
                    Err(error @ ServeError::Stopped) => return Err(control_error(error)),
                    Err(error) => {
                        return Err(ControlError::Refused(format!(
                            "{error}. A start with this file may fail, too: remove {} from the file until then",
                            volume.name
                        )));
                    }
                },
            }
        }
        all.push(ready);
    }
    started.note_reasons(skipped);
    Ok(all)
}

fn has_other_rooms(known: &CacheSpec, wanted: &CacheSpec) -> bool {
    let rooms = |cache: &CacheSpec| {
        let rooms = cache.volumes.iter().map(|volume| (volume.name.clone(), volume.room()));
        rooms.filter(|(_, room)| *room != RoomBounds::default()).collect::<BTreeMap<_, _>>()
    };
    rooms(known) != rooms(wanted)
}

fn has_same_places(known: &VolumeSpec, wanted: &VolumeSpec) -> bool {
    let (known, wanted) = (known.served_by(), wanted.served_by());
    let have_same_device = known.has_host_device() == wanted.has_host_device();
    known.nbd == wanted.nbd && known.vhost_user == wanted.vhost_user && have_same_device
}

fn join(started: &mut StartResult, ready: Vec<Ready>) -> Result<(), ControlError> {
    for Ready { index, volumes, places } in ready {
        for (spec, open) in volumes {
            volume_addition::join(&started.servers[index].handle, open).map_err(control_error)?;
            started.take_in(index, spec);
        }
        for (wanted, open) in places {
            let served = &mut started.servers[index];
            open.apply(&served.handle).map_err(control_error)?;
            let volumes = served.cache.volumes.iter_mut();
            volumes.filter(|volume| volume.name == wanted.name).for_each(|volume| {
                volume.frontends = wanted.frontends.clone();
            });
        }
    }
    Ok(())
}

fn change_settings(served: &mut PlannedServer, wanted: &ServePlan) -> Result<(), ServeError> {
    let find =
        |name: &str| wanted.caches.iter().flat_map(|cache| &cache.volumes).find(|volume| volume.name == name);
    let changed = served.cache.volumes.iter().filter_map(|volume| {
        let wanted = find(&volume.name)?;
        let settings = wanted.settings();
        let client_cap = wanted.client_cap();
        let is_other = settings != volume.settings() || client_cap != volume.client_cap();
        is_other.then(|| NamedSettings { volume: volume.name.clone(), settings, client_cap })
    });
    let changed: Vec<NamedSettings> = changed.collect();
    if let Some(cache) = wanted.cache(&served.cache.device) {
        if served.cache.write_budget != cache.write_budget {
            served.handle.set_write_budget(cache.write_budget)?;
        }
        served.cache.write_budget = cache.write_budget;
        served.cache.endurance = cache.endurance;
    }
    if changed.is_empty() {
        return Ok(());
    }
    served.handle.change_settings(changed)?;
    for volume in &mut served.cache.volumes {
        if let Some(wanted) = find(&volume.name) {
            volume.take_settings(wanted);
        }
    }
    Ok(())
}

fn refusal(error: &PlanSourceError) -> ControlError {
    match error {
        PlanSourceError::File(_) => ControlError::Wrong(error.to_string()),
        PlanSourceError::Flags => ControlError::Refused(error.to_string()),
    }
}
