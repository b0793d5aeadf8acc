//! Messages about lost data, and about a cache device out of service.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::stats::Record;
use kickcache_engine::units::{BlockIndex, BlockKey};

use super::EventLoop;
use kickcache_units::{are, counted};

use crate::extents::{EXTENTS_LOGGED, extents, show_extents};
use crate::serve::error::ServeError;
use crate::serve::out_of_service::OutOfService;
use crate::serve::served_volumes::Volume;
use crate::shell_command::ShellCommand;

/// The blocks of a volume on a cache device out of service that the origin lacks, or has not flushed.
struct UnsavedBlocks {
    volume: String,
    blocks: Vec<BlockIndex>,
}

impl<E: CacheEngine> EventLoop<E> {
    fn left_on_device(&self) -> Vec<UnsavedBlocks> {
        if self.core.engine.record().is_none() {
            return Vec::new();
        }
        let left = |volume: &Volume| UnsavedBlocks {
            volume: volume.info.name.clone(),
            blocks: self.core.engine.dirty_blocks(volume.info.id),
        };
        self.core.volumes.iter().map(left).filter(|left| !left.blocks.is_empty()).collect()
    }

    /// The error for an end with blocks on a cache device out of service alone, or with lost data.
    pub(super) fn left_behind(&self) -> Option<ServeError> {
        let left = self.left_on_device();
        if left.is_empty() {
            let lost = self.lost_at_end().or_else(|| self.cut_short_at_end());
            return lost.or_else(|| self.unlinked_at_end());
        }
        let told = |left: &UnsavedBlocks| {
            let count = counted(left.blocks.len() as u64, "block");
            let drain = ShellCommand::drain_older(&left.volume, &self.cache, &self.commands.state);
            format!("{count} of {} (`{drain}`)", left.volume)
        };
        let told: Vec<String> = left.iter().map(told).collect();
        let what = format!(
            "the server has stopped, and these are on {} alone, which is out of service, if it can still be read: {}; these \
             volumes are not served before they are written back or given up",
            self.cache.display(),
            told.join(", ")
        );
        Some(ServeError::LeftBehind { what })
    }

    fn lost_at_end(&self) -> Option<ServeError> {
        let lost = self.core.engine.damaged_blocks().len() as u64;
        if lost == 0 {
            return None;
        }
        let what = format!(
            "the server has stopped; {} {} lost, because {} cannot read them, and all other acknowledged \
             writes are on it or the origin",
            counted(lost, "dirty block"),
            are(lost),
            self.cache.display()
        );
        Some(ServeError::LeftBehind { what })
    }

    /// Logs news about a cache device out of service.
    pub(super) fn tell_out_of_service(&mut self) {
        let Some(record) = self.core.engine.record() else { return };
        match self.out_of_service {
            OutOfService::Untold => self.tell_loss(),
            OutOfService::Told(told) if told == record || record == Record::Pending => return,
            OutOfService::Told(_) => {}
        }
        self.out_of_service = OutOfService::Told(record);
        self.tell_record(record);
    }

    fn tell_loss(&self) {
        let device = self.cache.display();
        let mut dirty = Vec::new();
        for volume in self.core.volumes.iter() {
            let blocks = self.core.engine.unwritten_blocks(volume.info.id);
            if !blocks.is_empty() {
                dirty.push((volume.info.name.as_str(), blocks));
            }
        }
        let format = self.commands.format(&self.cache);
        let again = format!("stop, then `{format}` before it is used again");
        let next = match dirty.as_slice() {
            [] => format!("no data is lost; {again}"),
            some => {
                let drains = some.iter().map(|(name, _)| format!("`{}`", self.commands.drain(name)));
                let drains = drains.collect::<Vec<_>>().join(" and ");
                let hangs = self.commands.if_a_drain_hangs(&self.cache);
                format!("first {drains}, which writes back the readable blocks, then {again}; {hangs}")
            }
        };
        tracing::error!(
            event = "cache_out_of_service", device = %device,
            "{device} failed and is out of service: volumes go on from their origins; {next}"
        );
        for (name, blocks) in &dirty {
            let which = show_extents(&extents(blocks), EXTENTS_LOGGED);
            let (count, are) = (counted(blocks.len() as u64, "block"), are(blocks.len() as u64));
            tracing::error!(
                event = "dirty_out_of_service",
                volume = name,
                "{count} of {name} {are} dirty and on {device} alone, as {which}"
            );
        }
    }

    /// The error if the cache device was cut short and has dirty blocks.
    fn cut_short_at_end(&self) -> Option<ServeError> {
        let needed = self.superblock.geometry.device_size;
        let found =
            self.core.driver.file(Device::Cache)?.size_today().ok().filter(|found| *found < needed)?;
        let dirty = |volume: &Volume| {
            let count = self.core.engine.dirty_blocks(volume.info.id).len() as u64;
            (count > 0).then(|| format!("{} of {}", counted(count, "dirty block"), volume.info.name))
        };
        let dirty: Vec<String> = self.core.volumes.iter().filter_map(dirty).collect();
        if dirty.is_empty() {
            return None;
        }
        let what = format!(
            "the server has stopped, and {} has {found} bytes of the {needed} that it had: of {}, those beyond its end are lost",
            self.cache.display(),
            dirty.join(", ")
        );
        Some(ServeError::LeftBehind { what })
    }

    /// Removed files with data that are nowhere else: origins, or a cache device with dirty blocks.
    fn unlinked_at_end(&self) -> Option<ServeError> {
        let is_unlinked =
            |device: &Device| self.core.driver.file(*device).is_some_and(|file| file.unlinked_at().is_some());
        let origins = self.core.volumes.iter().map(|volume| Device::Origin(volume.info.id));
        let cache = (!self.unclean().is_empty()).then_some(Device::Cache);
        let lost: Vec<String> =
            origins.chain(cache).filter(is_unlinked).map(|device| self.show_device(device)).collect();
        let what = format!(
            "the server has stopped, and data are lost, because their files were removed while they were served: {}",
            lost.join(" and ")
        );
        (!lost.is_empty()).then_some(ServeError::LeftBehind { what })
    }

    /// Logs dirty blocks of the served volumes that have been lost since the last call.
    pub(super) fn tell_damage(&mut self) {
        let damaged = self.core.engine.damaged_blocks();
        if damaged == self.damaged {
            return;
        }
        let device = self.cache.display();
        for volume in self.core.volumes.iter() {
            let is_new =
                |key: &&BlockKey| key.volume() == volume.info.id && self.damaged.binary_search(key).is_err();
            let blocks: Vec<BlockIndex> = damaged.iter().filter(is_new).map(|key| key.block()).collect();
            if blocks.is_empty() {
                continue;
            }
            let (count, name) = (blocks.len() as u64, volume.info.name.as_str());
            let (dirty, are) = (counted(count, "dirty block"), are(count));
            let which = show_extents(&extents(&blocks), EXTENTS_LOGGED);
            tracing::error!(
                event = "dirty_lost",
                volume = name,
                "{dirty} of {name} {are} lost, because {device} cannot read them; {which}; reads of them \
                 fail until the whole block is written again"
            );
        }
        self.damaged = damaged;
    }

    fn tell_record(&self, record: Record) {
        let device = self.cache.display();
        match record {
            Record::OnDevice => {
                tracing::info!(
                    event = "out_of_service_recorded",
                    "{device} itself records that it is out of service: no start uses it"
                );
            }
            Record::WithHost => {
                tracing::info!(
                    event = "out_of_service_recorded",
                    "the state directory records that {device} is out of service: no start uses it"
                );
            }
            Record::Failed => tracing::error!(
                event = "out_of_service_unrecorded",
                "that {device} is out of service could be recorded neither on it nor in the state directory: writes \
                 fail until it can, because a restart could undo them"
            ),
            Record::ByOrder | Record::Pending => {}
        }
    }
}
