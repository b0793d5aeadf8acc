//! Resizes of volumes, as far as the event loop takes part: see [`crate::operations::resize`].

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::verbs::resizes::OriginToResize;
use crate::serve::verbs::superblock_lease::ResizeId;
use crate::shell_command::ShellCommand;

impl<E: CacheEngine> EventLoop<E> {
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

    pub(super) fn end_resize(&mut self, resize: ResizeId, superblock: Option<Box<Superblock>>) {
        self.resizes.running.retain(|running| *running != resize);
        if let Some(superblock) = superblock {
            self.superblock = *superblock;
            self.use_size(resize.volume);
        }
    }

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
