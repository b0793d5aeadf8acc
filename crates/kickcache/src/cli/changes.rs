//! Changes of what a daemon serves, while it serves: validated first, then done, or nothing has changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kickcache_daemon::control::wire::Reloaded;
use kickcache_daemon::control::{ControlError, ReloadExtent};
use kickcache_daemon::plan::ServePlan;
use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::plan::difference::difference;
use kickcache_daemon::plan::plan_change::PlanChange;
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use kickcache_daemon::serve::error::ServeError;
use kickcache_daemon::serve::server::NamedSettings;
use kickcache_units::counted;

use crate::cli::exit::{Exit, Failure};
use crate::cli::plan_source::PlanSource;
use crate::cli::service_manager;
use crate::cli::start::{Served, Started};

/// What a daemon was started with, and one change of it at a time.
pub(super) struct Changes {
    source: PlanSource,
    /// As it was started; what it serves by now is in [`Started`].
    plan: ServePlan,
    under_way: Mutex<()>,
}

/// A change has its turn while this lives.
pub(super) struct Turn<'a> {
    changes: &'a Changes,
    _turn: MutexGuard<'a, ()>,
}

impl Changes {
    pub(super) fn new(source: PlanSource, plan: ServePlan) -> Changes {
        Changes { source, plan, under_way: Mutex::new(()) }
    }

    /// As the daemon was started.
    pub(super) fn plan(&self) -> &ServePlan {
        &self.plan
    }

    /// Whether there is a file to read again.
    pub(super) fn has_file(&self) -> bool {
        self.source.is_file()
    }

    /// Waits until no other change is under way.
    pub(super) fn turn(&self) -> Turn<'_> {
        let turn = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { changes: self, _turn: turn }
    }
}

impl Turn<'_> {
    /// Serves what the file says by now, or tells what that would change. What is served by then is in `started`.
    ///
    /// # Errors
    /// Something cannot be, and nothing was changed.
    pub(super) fn reload(
        &self,
        started: &mut Started,
        extent: ReloadExtent,
    ) -> Result<Reloaded, ControlError> {
        service_manager::tell_reload();
        let reloaded = self.reload_quietly(started, extent);
        service_manager::tell_reloaded();
        match (&reloaded, extent) {
            (Ok(reloaded), ReloadExtent::All) => tell(reloaded),
            (Ok(_), ReloadExtent::DifferenceOnly) => {}
            (Err(error), _) => tracing::error!(
                event = "reload_refused",
                "the configuration file was read again, and nothing is changed: {error}"
            ),
        }
        reloaded
    }

    fn reload_quietly(&self, started: &mut Started, extent: ReloadExtent) -> Result<Reloaded, ControlError> {
        let mut wanted = self.changes.source.read().map_err(|failure| refusal(&failure))?;
        let served = self.served(started);
        let notes = leave_unserved(&mut wanted, &served, &self.changes.plan);
        keep_activation(&mut wanted, &served);
        let changes =
            difference(&served, &wanted).map_err(|error| ControlError::Refused(error.to_string()))?;
        check_possible(&changes)?;
        let reloaded = Reloaded { changes, notes };
        if extent == ReloadExtent::All {
            for served in &mut started.servers {
                change_settings(served, &wanted).map_err(control_error)?;
            }
        }
        Ok(reloaded)
    }

    /// The plan of what is served by now.
    fn served(&self, started: &Started) -> ServePlan {
        let caches = started.servers.iter().map(|served| served.cache.clone()).collect();
        ServePlan { caches, ..self.changes.plan.clone() }
    }
}

/// Takes cache devices from the file's plan of which the start could serve nothing: the next start tries them again. Says so.
fn leave_unserved(wanted: &mut ServePlan, served: &ServePlan, plan: &ServePlan) -> Vec<String> {
    let is_left =
        |cache: &CacheSpec| served.cache(&cache.device).is_none() && plan.cache(&cache.device).is_some();
    let left = wanted.caches.iter().filter(|cache| is_left(cache)).map(|cache| {
        let device = cache.device.display();
        format!("{device}: nothing of it is served since the start, and a reload leaves it so")
    });
    let notes = left.collect();
    wanted.caches.retain(|cache| !is_left(cache));
    notes
}

/// A volume that was handed its sockets has no others, as at its start.
fn keep_activation(wanted: &mut ServePlan, served: &ServePlan) {
    let volumes = served.caches.iter().flat_map(|cache| &cache.volumes);
    let is_handed = |volume: &&VolumeSpec| volume.frontends.nbd.nbd.as_ref().is_some_and(Vec::is_empty);
    for handed in volumes.filter(is_handed) {
        let same = wanted.caches.iter_mut().flat_map(|cache| &mut cache.volumes);
        same.filter(|volume| volume.name == handed.name).for_each(|volume| {
            volume.frontends.nbd.nbd.get_or_insert_default();
        });
    }
}

/// Refuses what only a start does.
fn check_possible(changes: &[PlanChange]) -> Result<(), ControlError> {
    let is_setting = |change: &&PlanChange| matches!(change, PlanChange::Setting { .. });
    match changes.iter().find(|change| !is_setting(change)) {
        Some(change) => {
            let what = format!(
                "{change}: this needs a restart; change it back, or stop the daemon and start it again"
            );
            Err(ControlError::Refused(what))
        }
        None => Ok(()),
    }
}

/// Modes and policies of the volumes of a server, all at once.
fn change_settings(served: &mut Served, wanted: &ServePlan) -> Result<(), ServeError> {
    let volumes = |cache: &CacheSpec| cache.volumes.clone();
    let wanted: Vec<_> = wanted.caches.iter().flat_map(volumes).collect();
    let find = |name: &str| wanted.iter().find(|volume| volume.name == name);
    let changed = served.cache.volumes.iter().filter_map(|volume| {
        let wanted = find(&volume.name)?;
        let settings = wanted.settings();
        (settings != volume.settings()).then(|| NamedSettings { volume: volume.name.clone(), settings })
    });
    let changed: Vec<NamedSettings> = changed.collect();
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

/// Why a file cannot be used, for who asked.
fn refusal(failure: &Failure) -> ControlError {
    match failure.exit {
        Exit::Usage => ControlError::Wrong(failure.sentence()),
        Exit::Success
        | Exit::Failed
        | Exit::NoDaemon
        | Exit::Repairable
        | Exit::Lost
        | Exit::Suspect
        | Exit::OutOfService
        | Exit::StoppedShort
        | Exit::Unwell
        | Exit::Judged(_)
        | Exit::Interrupted => ControlError::Refused(failure.sentence()),
    }
}

fn tell(reloaded: &Reloaded) {
    for change in &reloaded.changes {
        tracing::info!(event = "plan_changed", "{change}");
    }
    let count = reloaded.changes.len() as u64;
    tracing::info!(
        event = "reloaded",
        "the configuration file was read again: {}",
        if count == 0 {
            "nothing is different".to_owned()
        } else {
            format!("{} made", counted(count, "change"))
        }
    );
}

/// Why a server refuses, for who asked.
pub(super) fn control_error(error: ServeError) -> ControlError {
    match error {
        ServeError::Stopped => ControlError::Stopped,
        error => ControlError::Refused(error.to_string()),
    }
}
