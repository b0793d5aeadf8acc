//! The scope of an error at the start: volumes, a cache device, or the whole start.

use std::path::{Path, PathBuf};

use anyhow::Error;

use crate::devices::offline::OfflineError;
use crate::devices::offline::earlier_volumes::{EarlierVolumes, Touch};
use crate::devices::state::StateError;
use crate::driver::device::OpenError;
use crate::error_sentence::error_sentence;
use crate::plan::ServePlan;
use crate::plan::cache_spec::{CacheSpec, SkippedVolume};
use crate::serve::config::StatePlace;
use crate::serve::error::{RefusedVolume, ServeError};
use crate::start::missing_origin;
use crate::start::skipped_volumes::leave_unserved;

/// The treatment of volumes that cannot be served.
pub(crate) struct Refusals<'a> {
    state: &'a StatePlace,
    /// In the whole plan, before volumes are left out.
    volume_count: usize,
    cache_count: usize,
    silent: Vec<PathBuf>,
}

enum Concern {
    Volume(SkippedVolume),
    Volumes(Vec<SkippedVolume>),
    Cache(String),
    /// The whole start: the configuration is wrong, or the system failed.
    Start,
}

impl<'a> Refusals<'a> {
    pub(crate) fn of(plan: &ServePlan, state: &'a StatePlace) -> Refusals<'a> {
        let volume_count = plan.caches.iter().map(|cache| cache.volumes.len()).sum();
        Refusals { state, volume_count, cache_count: plan.caches.len(), silent: Vec::new() }
    }

    pub(crate) fn has_neighbours(&self) -> bool {
        self.volume_count > 1
    }

    /// Skips the volumes with an origin or cache device that does not respond.
    ///
    /// # Errors
    /// An error of `silent` that concerns the whole start.
    pub(crate) fn leave_silent(
        &mut self,
        caches: &mut [CacheSpec],
        silent: Vec<OpenError>,
    ) -> anyhow::Result<()> {
        let path = |error: &OpenError| match error {
            OpenError::Silent { path, .. } => Some(path.clone()),
            _ => None,
        };
        self.silent = silent.iter().filter_map(path).collect();
        for (path, error) in self.silent.iter().zip(silent) {
            for cache in caches.iter_mut() {
                let of_path =
                    cache.volumes.iter().find(|volume| volume.origin.path() == Some(path.as_path()));
                let why = error.to_string();
                if cache.device == *path {
                    self.leave_cache(cache, &why)?;
                } else if let Some(name) = of_path.map(|volume| volume.name.clone()) {
                    self.leave_volume(cache, SkippedVolume { name, why })?;
                }
            }
        }
        Ok(())
    }

    /// Skips the volumes that a server's error concerns.
    ///
    /// # Errors
    /// The given error, if the start must fail.
    pub(crate) fn leave(&self, cache: &mut CacheSpec, error: ServeError) -> anyhow::Result<()> {
        let left = match concern(&error) {
            Concern::Volume(mut unserved) if has(cache, &unserved.name) => {
                if self.is_origin_missing(cache, &error) {
                    let what = missing_origin::what_to_do(cache, &unserved.name, self.state);
                    unserved.why = format!("{}; {what}", unserved.why);
                }
                self.leave_volume(cache, unserved)
            }
            Concern::Volumes(all) if all.iter().all(|unserved| has(cache, &unserved.name)) => {
                all.into_iter().try_for_each(|unserved| self.leave_volume(cache, unserved))
            }
            Concern::Volume(_) | Concern::Volumes(_) => self.leave_cache(cache, &error.to_string()),
            Concern::Cache(why) => self.leave_cache(cache, &why),
            Concern::Start => return Err(error.into()),
        };
        left.map_err(|_| error.into())
    }

    fn is_origin_missing(&self, cache: &CacheSpec, error: &ServeError) -> bool {
        let is_missing =
            matches!(error, ServeError::Origin { source, .. } if missing_origin::is_missing(source));
        is_missing && self.touch(&cache.device) == Touch::Allowed
    }

    /// Leaves out the volumes of a cache device that cannot be used.
    ///
    /// # Errors
    /// The given error, if the start must fail.
    pub(crate) fn leave_all(&self, cache: &mut CacheSpec, error: Error) -> anyhow::Result<()> {
        let of_state = match error.downcast_ref::<OfflineError>() {
            Some(OfflineError::State(source)) => Some(source),
            Some(_) | None => error.downcast_ref::<StateError>(),
        };
        if of_state.is_some_and(StateError::is_of_directory) {
            return Err(error);
        }
        self.leave_cache(cache, &error_sentence(&*error)).map_err(|_| error)
    }

    fn leave_volume(&self, cache: &mut CacheSpec, unserved: SkippedVolume) -> anyhow::Result<()> {
        if !self.has_neighbours() || !self.is_known(&self.known(cache), cache, &unserved.name) {
            return Err(Error::msg(unserved.why));
        }
        leave_unserved(cache, vec![unserved]);
        Ok(())
    }

    fn leave_cache(&self, cache: &mut CacheSpec, why: &str) -> anyhow::Result<()> {
        let has_new = || {
            let known = self.known(cache);
            cache.volumes.iter().any(|volume| !self.is_known(&known, cache, &volume.name))
        };
        if self.cache_count < 2 || has_new() {
            return Err(Error::msg(why.to_owned()));
        }
        let why = format!("its cache device cannot be used: {why}");
        let left =
            cache.volumes.iter().map(|volume| SkippedVolume { name: volume.name.clone(), why: why.clone() });
        let left = left.collect();
        leave_unserved(cache, left);
        Ok(())
    }

    fn known(&self, cache: &CacheSpec) -> EarlierVolumes {
        EarlierVolumes::of(&cache.device, self.touch(&cache.device), self.state)
    }

    fn is_known(&self, known: &EarlierVolumes, cache: &CacheSpec, name: &str) -> bool {
        let volume = cache.volumes.iter().find(|volume| volume.name == name);
        let Some(origin) = volume.map(|volume| &volume.origin) else { return false };
        known.knows(name, origin, origin.path().map_or(Touch::Allowed, |path| self.touch(path)))
    }

    fn touch(&self, path: &Path) -> Touch {
        match self.silent.iter().any(|silent| silent == path) {
            true => Touch::Forbidden,
            false => Touch::Allowed,
        }
    }
}

fn has(cache: &CacheSpec, name: &str) -> bool {
    cache.volumes.iter().any(|volume| volume.name == name)
}

fn concern(error: &ServeError) -> Concern {
    match error {
        ServeError::Volume { name, what } => {
            Concern::Volume(SkippedVolume { name: name.clone(), why: what.clone() })
        }
        ServeError::Volumes(refused) => {
            let refused = refused.iter().cloned();
            Concern::Volumes(refused.map(|RefusedVolume { name, what }| SkippedVolume { name, why: what }).collect())
        }
        ServeError::Origin { name, source } => {
            Concern::Volume(SkippedVolume { name: name.clone(), why: source.to_string() })
        }
        // One device in two places is a mistake of the configuration.
        ServeError::Device(OpenError::Same { .. })
        | ServeError::Address { .. }
        | ServeError::Tls(_)
        | ServeError::System { .. }
        // A state directory that is full or read-only concerns all volumes on cache devices in use.
        | ServeError::Unnoted { .. }
        | ServeError::GivenUp { .. }
        | ServeError::LeftBehind { .. }
        | ServeError::Stopped => Concern::Start,
        ServeError::Device(_)
        | ServeError::Engine { .. }
        | ServeError::Cache { .. }
        | ServeError::Busy { .. }
        | ServeError::CacheIo { .. }
        | ServeError::StillRunning { .. }
        | ServeError::Successor { .. } => Concern::Cache(error.to_string()),
    }
}
