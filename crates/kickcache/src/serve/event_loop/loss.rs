//! A cache device that is taken out of service: said once, with what is on it alone and what to do, and again when it is
//! on record.

use kickcache_engine::stats::Record;

use super::EventLoop;
use crate::extents::{EXTENTS_LOGGED, extents, show_extents};
use crate::serve::cache_engine::CacheEngine;

/// How far the log has told of a cache device that is out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    /// Not at all.
    Untold,
    /// That it is, and that this is on record there.
    Told(Record),
}

impl<E: CacheEngine> EventLoop<E> {
    /// Says what a cache device held that went out of service. Once the daemon has ended, nobody else can.
    pub(super) fn tell_out_of_service(&mut self) {
        let Some(record) = self.engine.record() else { return };
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
        for volume in &self.volumes {
            let blocks = self.engine.unwritten_blocks(volume.info.id);
            if !blocks.is_empty() {
                dirty.push((volume.info.name.as_str(), blocks));
            }
        }
        let again = format!("stop, then `kickcache format --force {device}` before it is used again");
        let next = match dirty.as_slice() {
            [] => format!("nothing is lost; {again}"),
            [(name, _), ..] => format!(
                "first `kickcache drain {name} --wait`, which writes back what can still be read of it, then {again}"
            ),
        };
        tracing::error!(
            "{device} failed too often and is out of service: volumes go on from their origins; {next}"
        );
        for (name, blocks) in &dirty {
            let which = show_extents(&extents(blocks), EXTENTS_LOGGED);
            tracing::error!("{} blocks of {name} are dirty and on {device} alone, as {which}", blocks.len());
        }
    }

    fn tell_record(&self, record: Record) {
        let device = self.cache.display();
        match record {
            Record::OnDevice => {
                tracing::info!(
                    "it is on record on {device} itself that it is out of service: no start uses it"
                );
            }
            Record::WithHost => {
                tracing::info!(
                    "it is noted in the state directory that {device} is out of service: no start uses it"
                );
            }
            Record::Failed => tracing::error!(
                "that {device} is out of service could be recorded neither on it nor in the state directory: writes \
                 fail until it can, because a restart could undo them"
            ),
            Record::ByOrder | Record::Pending => {}
        }
    }
}
