//! Resizes of volumes, as far as the event loop takes part: see [`crate::operations::resize`].

use std::sync::mpsc::Sender;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::verbs::resizes::{OriginToResize, ResizeId, WaitingResize};
use crate::serve::verbs::superblock_lease::SuperblockLease;
use crate::shell_command::ShellCommand;

impl<E: CacheEngine> EventLoop<E> {
    /// See [`Verbs::begin_resize`](crate::serve::verbs::Verbs::begin_resize).
    pub(super) fn begin_resize(&mut self, name: &str) -> Result<OriginToResize, ServeError> {
        let id = self.volume_id(name)?;
        let refuse = |what: &str| ServeError::Volume { name: name.into(), what: what.into() };
        if self.core.stage != LoopPhase::Serving {
            return Err(refuse("the server is stopping; resize it after the next start (--origin-grown)"));
        }
        if self.resizes.has(id) {
            let what = "its resize is in progress already, and a device has yet to respond; try again later";
            return Err(refuse(what));
        }
        if self.leaving.as_ref().is_some_and(|leaving| leaving.id == id) {
            return Err(refuse("it is being removed"));
        }
        let file = self.core.driver.shared_file(Device::Origin(id)).ok_or_else(|| {
            let (stop, serve) = (ShellCommand::new("stop"), ShellCommand::new("serve").word("--origin-grown"));
            refuse(&format!(
                "its size cannot be read while it is served; stop kickcache ({stop}), and start it with {serve}"
            ))
        })?;
        let resize = self.resizes.begin(id);
        Ok(OriginToResize { resize, file, superblock: self.superblock.clone() })
    }

    pub(super) fn wait_for_superblock(
        &mut self,
        resize: ResizeId,
        answer: Sender<Result<SuperblockLease, ServeError>>,
    ) {
        self.resizes.waiting.push_back(WaitingResize { resize, answer });
        self.lease_to_resize();
    }

    /// Gives the superblock to the next resize that waits for it, unless another operation writes it.
    pub(super) fn lease_to_resize(&mut self) {
        while !self.resizes.waiting.is_empty() && !self.is_storing_superblock() {
            let Some(WaitingResize { resize, answer }) = self.resizes.waiting.pop_front() else { return };
            // If the caller does not wait any more, the failed send is harmless.
            if self.core.stage != LoopPhase::Serving {
                drop(answer.send(Err(ServeError::Stopped)));
                continue;
            }
            if !self.resizes.running.contains(&resize) {
                let what =
                    "the resize ended, because its volume was to be removed; repeat it if the volume stays";
                drop(answer.send(Err(ServeError::Cache { path: self.cache.clone(), what: what.into() })));
                continue;
            }
            self.lend_superblock(&answer);
            self.resizes.leased = self.is_leased.then_some(resize);
        }
    }

    /// Ends a resize. A new size is reported to guests and the kernel at once, and to NBD clients when they
    /// connect.
    pub(super) fn end_resize(&mut self, resize: ResizeId, superblock: Option<Box<Superblock>>) {
        self.resizes.running.retain(|running| *running != resize);
        if let Some(superblock) = superblock {
            self.superblock = *superblock;
            self.use_size(resize.volume);
        }
        if self.resizes.leased == Some(resize) {
            self.resizes.leased = None;
            self.end_lease(None);
        }
    }

    /// Uses the size of a volume in the superblock.
    fn use_size(&mut self, id: VolumeId) {
        let Some(index) = self.core.volumes.indices().find(|index| self.core.volumes[*index].info.id == id)
        else {
            return;
        };
        let name = self.core.volumes.name(index).to_owned();
        let Some(size) = self.superblock.volume(&name).map(|record| record.origin_size) else { return };
        self.core.engine.grow_volume(id, size);
        self.core.volumes[index].info.size = size;
        self.frontends.resize(&self.core, index);
        tracing::info!(event = "volume_resized", volume = name, "{name} now has {size} bytes");
    }
}
