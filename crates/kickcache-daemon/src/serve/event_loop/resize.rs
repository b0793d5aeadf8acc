//! An origin that was extended while it is served. Threads query and write the devices: an unresponsive one
//! blocks no others.

use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::driver::device::BlockFile;
use crate::operations::resizes::{Answer, Grown, Outcome, Overdue, ResizeStep};
use crate::serve::control::{Growth, Resized};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::shell_command::ShellCommand;

/// The origin of a volume.
struct OriginFile {
    volume: VolumeId,
    file: Arc<BlockFile>,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Begins to use the new size of a volume's origin: it is recorded durably on the cache device first, if there is one,
    /// then reported to guests and the kernel at once, and to NBD clients when they connect.
    pub(super) fn begin_resize(&mut self, now: Instant, name: &str, answer: Answer) {
        let joined = match self.volume_id(name) {
            Ok(id) => self.resizes.join(now, id, answer),
            Err(_) => Err(answer),
        };
        let Err(answer) = joined else { return };
        let begun = self.origin_to_look_at(name).and_then(|OriginFile { volume, file }| {
            let begun = self.resizes.look(now, volume, file, answer.clone());
            begun.map_err(ServeError::system("start a thread"))
        });
        if let Err(error) = begun {
            // If the caller does not wait any more, the failed send is harmless.
            let _ = answer.send(Err(error));
        }
    }

    fn origin_to_look_at(&self, name: &str) -> Result<OriginFile, ServeError> {
        let id = self.volume_id(name)?;
        let refuse = |what: &str| ServeError::Volume { name: name.into(), what: what.into() };
        if self.core.stage != LoopPhase::Serving {
            return Err(refuse("the server is stopping; resize it after the next start (--origin-grown)"));
        }
        if self.resizes.has(id) {
            let what = "its resize is in progress already, and a device has yet to respond; try again later";
            return Err(refuse(what));
        }
        let origin = self.core.driver.shared_file(Device::Origin(id));
        let origin = origin.ok_or_else(|| {
            let (stop, serve) = (ShellCommand::new("stop"), ShellCommand::new("serve").word("--origin-grown"));
            refuse(&format!(
                "its size cannot be read while it is served; stop kickcache ({stop}), and start it with {serve}"
            ))
        })?;
        Ok(OriginFile { volume: id, file: origin })
    }

    /// Continues with the results of threads.
    pub(super) fn take_resizes(&mut self) {
        while let Some(outcome) = self.resizes.poll() {
            match outcome {
                Outcome::Looked(id, Ok(size)) => match self.grown(id, size) {
                    Ok(Some(_)) => self.resizes.wait_to_store(id, size),
                    Ok(None) => {
                        tracing::info!(
                            event = "volume_size_unchanged",
                            "the size of {} is unchanged: {size} bytes",
                            self.volume_name(id)
                        );
                        self.resizes.end(id, Ok(Resized { size, growth: Growth::Unchanged }));
                    }
                    Err(error) => self.resizes.end(id, Err(error)),
                },
                Outcome::Looked(id, Err(error)) => {
                    let what = format!("the size of its origin cannot be found: {error}");
                    let name = self.volume_name(id).into();
                    self.resizes.end(id, Err(ServeError::Volume { name, what }));
                }
                Outcome::Stored(id, superblock, Ok(())) => self.end_resize(id, *superblock),
                Outcome::Stored(id, _, Err(error)) => {
                    tracing::error!(
                        event = "record_failed",
                        "cannot record the size of {}: {error}",
                        self.volume_name(id)
                    );
                    self.resizes.end(id, Err(error));
                }
            }
        }
        while !self.growth.is_storing()
            && !self.takeover.is_storing()
            && !self.is_leased
            && let Some(Grown { volume: id, size }) = self.resizes.next_to_store()
        {
            if let Err(error) = self.store_size(id, size) {
                self.resizes.end(id, Err(error));
            }
        }
    }

    /// The superblock with another size of a volume; `None` if the volume has that size already.
    fn grown(&self, id: VolumeId, size: u64) -> Result<Option<Box<Superblock>>, ServeError> {
        let name = self.volume_name(id);
        let mut superblock = Box::new(self.superblock.clone());
        let grown = superblock.grow_volume(name, size);
        grown.map_err(|source| ServeError::Engine { path: self.cache.clone(), source })?;
        let is_known = self.superblock.volume(name).is_some_and(|known| known.origin_size == size);
        Ok(if is_known { None } else { Some(superblock) })
    }

    fn store_size(&mut self, id: VolumeId, size: u64) -> Result<(), ServeError> {
        if self.core.stage != LoopPhase::Serving {
            return Err(ServeError::Stopped);
        }
        // The superblock is made again, as it may have changed for other volumes meanwhile.
        let Some(superblock) = self.grown(id, size)? else { return Err(ServeError::Stopped) };
        match self.core.driver.shared_file(Device::Cache) {
            Some(cache) => {
                let begun = self.resizes.store(id, cache, superblock);
                begun.map_err(ServeError::system("start a thread"))
            }
            None => {
                self.end_resize(id, *superblock);
                Ok(())
            }
        }
    }

    /// Ends a resize after the new size was written to the superblock of the cache device, if there is one.
    fn end_resize(&mut self, id: VolumeId, superblock: Superblock) {
        self.superblock = superblock;
        let name = self.volume_name(id).to_owned();
        let Some(size) = self.superblock.volume(&name).map(|record| record.origin_size) else { return };
        self.core.engine.grow_volume(id, size);
        self.tell_size(&name, size);
        self.resizes.end(id, Ok(Resized { size, growth: Growth::Grown }));
    }

    fn tell_size(&mut self, name: &str, size: u64) {
        let Some(index) = self.core.volumes.index_of(name) else {
            return;
        };
        self.core.volumes[index].info.size = size;
        self.frontends.resize(&self.core, index);
        tracing::info!(event = "volume_resized", volume = name, "{name} now has {size} bytes");
    }

    /// Answers the callers of overdue resizes, and names the device that has not responded.
    pub(super) fn tell_late_resizes(&mut self, now: Instant) {
        while let Some(Overdue { volume, step, answer }) = self.resizes.poll_overdue(now) {
            let (device, what) = match step {
                ResizeStep::Looking => (Device::Origin(volume), "has not reported its size"),
                ResizeStep::Waiting(_) | ResizeStep::Storing(_) => {
                    (Device::Cache, "has not taken the new size")
                }
            };
            let what = format!(
                "{} {what} for 8 s; the new size is used when the device responds: check the device, or repeat the command",
                self.show_device(device)
            );
            // If the caller does not wait any more, the failed send is harmless.
            let device = format!("volume {}", self.volume_name(volume));
            let _ = answer.send(Err(ServeError::StillRunning { device, what }));
        }
    }

    pub(super) fn volume_name(&self, id: VolumeId) -> &str {
        let found = self.core.volumes.iter().find(|volume| volume.info.id == id);
        found.map_or("?", |found| &found.info.name)
    }
}
