//! A device that is to replace a cache device.

use std::path::PathBuf;

use crate::control::ControlError;
use crate::control::wire::{ReplacementOrder, ReplacementStage, Replacing};
use crate::devices::cache_device::Overwrite;
use crate::driver::device::check_distinct;
use crate::driver::rights::access;
use crate::error_sentence::error_sentence;
use crate::plan::ServePlan;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::{ServerStatus, SuccessorSpec, TakeoverBegun, TakeoverProgress, TakeoverStage};
use crate::whole_path::shown_path;

use crate::devices::offline::format_check::FormatCheck;
use crate::operations::control_error::control_error;
use crate::operations::take_in::is_left_out;
use crate::start::servers::{PlannedServer, StartResult};

pub(crate) struct NewDevice {
    spec: SuccessorSpec,
    state: StatePlace,
    uses: Vec<Use>,
}

/// The present use of a device in this daemon; `--force` does not override it.
struct Use {
    path: PathBuf,
    what: String,
}

impl NewDevice {
    pub(crate) fn new(
        order: &ReplacementOrder,
        state: StatePlace,
        plan: &ServePlan,
        started: &StartResult,
    ) -> NewDevice {
        let overwrite = if order.force { Overwrite::Allow } else { Overwrite::Refuse };
        let spec = SuccessorSpec { path: order.with.clone(), size: order.size_bytes, overwrite };
        let used = started.servers.iter().filter(|served| !is_left_out(served));
        let caches = used.map(|served| Use {
            path: served.cache.device.clone(),
            what: "this daemon serves it, as a cache device".into(),
        });
        let served = started.servers.iter().flat_map(|served| &served.cache.volumes);
        let planned = plan.caches.iter().flat_map(|cache| &cache.volumes);
        let unserved = planned.filter(|volume| started.is_unserved(&volume.name));
        let origin = |volume: &VolumeSpec| {
            let what = format!("it is the origin of volume {} of this daemon", volume.name);
            Some(Use { path: volume.origin.path()?.into(), what })
        };
        let uses = caches.chain(served.chain(unserved).filter_map(origin)).collect();
        NewDevice { spec, state, uses }
    }

    fn formatting(&self, overwrite: Overwrite) -> FormatCheck<'_> {
        let SuccessorSpec { path, size, .. } = &self.spec;
        FormatCheck { path, size: *size, overwrite, state: &self.state }
    }

    fn refuse(&self, what: String) -> ServeError {
        ServeError::Cache { path: self.spec.path.clone(), what }
    }

    /// Refuses a device in use by this daemon.
    ///
    /// # Errors
    /// If this daemon uses the device; the error names the use.
    pub(crate) fn check_unused(&self) -> Result<(), ServeError> {
        let path = &self.spec.path;
        let is_it =
            |found: &&Use| access::exists(path) && check_distinct([path.as_path(), &found.path]).is_err();
        match self.uses.iter().find(is_it) {
            Some(found) => Err(self.refuse(format!("{}; choose another one", found.what))),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), ServeError> {
        self.check_unused()?;
        let checked = self.formatting(self.spec.overwrite).check_contents();
        checked.map_err(|error| self.refuse(self.without_path(&error_sentence(&*error))))
    }

    /// The data that `--force` destroys, as a text.
    pub(crate) fn destroyed(&self) -> Option<String> {
        let found = access::metadata(&self.spec.path).ok()?;
        if self.spec.overwrite == Overwrite::Refuse || found.is_file() && found.len() == 0 {
            return None;
        }
        let refused = self.formatting(Overwrite::Refuse).check().err()?;
        Some(error_sentence(&*refused))
    }

    fn without_path(&self, text: &str) -> String {
        let path = self.spec.path.display();
        let is = text.strip_prefix(&format!("{path} is ")).map(|rest| format!("it is {rest}"));
        is.or_else(|| Some(text.strip_prefix(&format!("{path}: "))?.to_owned()))
            .unwrap_or_else(|| text.to_owned())
    }

    /// Starts the takeover, or in a dry run checks it.
    ///
    /// # Errors
    /// If the device cannot take over.
    pub(crate) fn replace(
        self,
        served: &PlannedServer,
        device: String,
        order: &ReplacementOrder,
    ) -> Result<Replacing, ControlError> {
        let spec = self.spec.clone();
        if !order.dry_run {
            let begun = served.handle.take_over(spec, move || self.check());
            let TakeoverBegun { with, bytes } = begun.map_err(control_error)?;
            return Ok(Replacing { device, with, bytes, stage: ReplacementStage::Begun, destroyed: None });
        }
        self.check().map_err(control_error)?;
        let TakeoverBegun { with, bytes } = served.handle.check_takeover(&spec).map_err(control_error)?;
        Ok(Replacing { device, with, bytes, stage: ReplacementStage::Begun, destroyed: self.destroyed() })
    }
}

/// The replacement that an earlier order with the same device began. `None` for a dry run, and while the
/// device is being prepared.
pub(crate) fn ordered_before(order: &ReplacementOrder, status: &ServerStatus) -> Option<Replacing> {
    let (device, with) = (shown_path(&status.cache), shown_path(&order.with));
    let replacing = |bytes, stage| {
        Some(Replacing { device: device.clone(), with: with.clone(), bytes, stage, destroyed: None })
    };
    match &status.takeover {
        _ if order.dry_run => None,
        Some(TakeoverProgress {
            with: running,
            stage: TakeoverStage::Copying | TakeoverStage::TakingOver,
            bytes,
            ..
        }) if *running == with => replacing(*bytes, ReplacementStage::Running),
        None if status.has_taken_over && device == with => {
            replacing(status.cache_size, ReplacementStage::Done)
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::cache_spec::SkippedVolume;

    use super::*;

    #[test]
    fn force_does_not_take_an_origin_that_is_unserved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), vec![b'a'; 8 << 20]).unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        let volume = format!("[[cache.volume]]\nname = \"a\"\norigin = \"{}\"\n", at("a").display());
        let text = format!("[[cache]]\ndevice = \"/dev/fast\"\n{volume}");
        let plan = crate::config::parse(&at("t.toml"), &text).unwrap();
        let unserved = vec![SkippedVolume { name: "a".into(), why: "it was away".into() }];
        let started = StartResult { servers: Vec::new(), unserved, added: Default::default() };
        let device = |name: &str| {
            let order = ReplacementOrder {
                device: None,
                with: at(name),
                size_bytes: None,
                force: true,
                dry_run: false,
            };
            NewDevice::new(&order, StatePlace::NotKept, &plan, &started)
        };
        for name in ["a", "link"] {
            let refused = device(name).check_unused().unwrap_err().to_string();
            assert!(refused.contains("it is the origin of volume a of this daemon"), "{refused}");
        }
        assert!(device("free").check_unused().is_ok());
        assert!(device("a").destroyed().unwrap().contains("it holds text"));
    }
}
