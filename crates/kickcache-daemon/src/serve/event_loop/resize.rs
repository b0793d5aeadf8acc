//! An origin that was extended while it is served.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;

use super::EventLoop;
use crate::serve::cache_device::store_superblock;
use crate::serve::error::ServeError;

impl<E: CacheEngine> EventLoop<E> {
    /// Takes the size of a volume's origin over: noted durably first, then told to guests at once and to NBD clients
    /// when they connect. Gives the size.
    pub(super) fn resize(&mut self, name: &str) -> Result<u64, ServeError> {
        let id = self.volume_id(name)?;
        let refuse = |what: String| ServeError::Volume { name: name.into(), what };
        let size = match self.core.driver.file(Device::Origin(id)).map(|origin| origin.size_today()) {
            Some(Ok(size)) => size,
            Some(Err(error)) => {
                return Err(refuse(format!("the size of its origin cannot be found: {error}")));
            }
            None => {
                return Err(refuse(
                    "its origin is no file or block device, which always has one size".into(),
                ));
            }
        };
        let grown = self.superblock.grow_volume(name, size);
        grown.map_err(|source| ServeError::Engine { path: self.cache.clone(), source })?;
        if let Some(cache) = self.core.driver.file(Device::Cache) {
            store_superblock(cache, &mut self.superblock)?;
        }
        self.core.engine.grow_volume(id, size);
        self.tell_size(name, size);
        Ok(size)
    }

    fn tell_size(&mut self, name: &str, size: u64) {
        let Some(index) = self.core.volumes.iter().position(|volume| volume.info.name == name) else {
            return;
        };
        self.core.volumes[index].info.size = size;
        self.frontends.resize(&self.core, index);
        tracing::info!("{name} has {size} bytes from here on");
    }
}
