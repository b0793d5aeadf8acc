//! Removes a volume while its server serves others.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use kickcache_engine::units::{Location, VolumeId};
use kickcache_units::{are, counted};

use crate::devices::cache_device::store_superblock;
use crate::driver::clock::WatchedTime;
use crate::operations::held_superblock::{HeldSuperblock, LeaseWait};
use crate::plan::removal::{Clients, DirtyFate};
use crate::serve::error::ServeError;
use crate::serve::frontend::{check_unused, wait_until_gone};
use crate::serve::server::ServerHandle;
use crate::serve::verbs::membership::{Members, Quiescence};
use crate::serve::verbs::superblock_lease::SuperblockWriter;

/// The longest wait for requests of the volume and for writeback; after that, the volume stays.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// If the user accepts the loss of blocks, an unresponsive origin is abandoned after this time.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RemovalOrder {
    pub(crate) name: String,
    pub(crate) clients: Clients,
    pub(crate) dirty: DirtyFate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemovedVolume {
    /// Blocks that the origin lacks or has not flushed, because the order was to abandon them.
    pub(crate) lost_blocks: u64,
}

/// Removes a volume: its blocks first, durably, then its name, then its records. Waits 5 s at most for its clients and its origin.
///
/// # Errors
/// The volume stays; if the cache device fails, it is removed from the loop only.
pub(crate) fn part(server: &ServerHandle, order: &RemovalOrder) -> Result<RemovedVolume, ServeError> {
    let name = &order.name;
    let device = check_device(server, name)?;
    let mut held = HeldSuperblock::wait(server, SuperblockWriter::Membership, LeaseWait::Short)?;
    let hidden = HiddenVolume::hide(server, order)?;
    let (id, lost_blocks) = (hidden.id, hidden.quiesce(order)?);
    hidden.empty()?;
    held.superblock.volumes.retain(|record| record.id != id);
    let stored = match &held.cache {
        Some(cache) => store_superblock(cache, &mut held.superblock),
        None => Err(ServeError::Stopped),
    };
    let superblock = stored.is_ok().then(|| Box::new(held.superblock.clone()));
    let gone = server.in_turn(move |verbs, _| verbs.end_removal(superblock))?;
    // In this order: once another operation has the superblock, it may hide another volume.
    drop(hidden);
    drop(held);
    // Closes the origin before the removal is reported, so that the user can open it then.
    drop(gone);
    if let Some(path) = device {
        wait_until_gone(&path);
    }
    let noted = server.notes().map_or(Ok(()), |notes| notes.part(id));
    if let Err(error) = noted {
        tracing::warn!(event = "record_failed", "cannot record the removal of {name}: {error}");
    }
    stored.map_err(|error| {
        let what = format!("it is not served any more, but its name stays on the cache device: {error}");
        ServeError::Volume { name: name.clone(), what }
    })?;
    tracing::info!(event = "volume_removed", volume = name, "{name} is removed");
    Ok(RemovedVolume { lost_blocks })
}

/// Refuses the removal while another process has the volume's block device open.
fn check_device(server: &ServerHandle, name: &str) -> Result<Option<PathBuf>, ServeError> {
    let members: Members = server.in_turn(|verbs, _| verbs.members())??;
    let device = members.member(name).and_then(|member| member.block_device.clone());
    let refuse = |what| ServeError::Volume { name: name.into(), what };
    device.iter().try_for_each(|path| check_unused(path)).map_err(refuse)?;
    Ok(device)
}

/// A volume that accepts no clients. It accepts them again when this is dropped, unless it was removed.
struct HiddenVolume<'a> {
    server: &'a ServerHandle,
    id: VolumeId,
}

impl Drop for HiddenVolume<'_> {
    fn drop(&mut self) {
        // If the loop has ended, the volume is not served any more.
        drop(self.server.in_turn(|verbs, _| verbs.keep_volume()));
    }
}

impl<'a> HiddenVolume<'a> {
    fn hide(server: &'a ServerHandle, order: &RemovalOrder) -> Result<HiddenVolume<'a>, ServeError> {
        let (name, clients) = (order.name.clone(), order.clients);
        let id = server.in_turn(move |verbs, _| verbs.begin_removal(&name, clients))??;
        Ok(HiddenVolume { server, id })
    }

    /// Waits until clients have their replies, and the origin has all data or its missing blocks are
    /// abandoned.
    fn quiesce(&self, order: &RemovalOrder) -> Result<u64, ServeError> {
        let (id, dirty) = (self.id, order.dirty);
        let (mut waited, mut has_given_up) = (WatchedTime::begin(), dirty == DirtyFate::WrittenBack);
        loop {
            let quiescence = self.server.in_turn(move |verbs, now| verbs.quiesce(now, dirty))??;
            if quiescence.is_reached(dirty) {
                return Ok(quiescence.not_clean);
            }
            let span = waited.look();
            if span >= QUIET_MAX {
                let what = format!("it stays: {}", obstacle(&quiescence, dirty));
                return Err(ServeError::Volume { name: order.name.clone(), what });
            }
            if span >= GIVE_UP_AFTER && !has_given_up {
                has_given_up = true;
                self.server.in_turn(move |verbs, _| verbs.give_up_origin(id))?;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn empty(&self) -> Result<(), ServeError> {
        let id = self.id;
        let mut next = Some(Location::new(0));
        while let Some(from) = next {
            next = self.server.in_turn(move |verbs, now| verbs.forget_some(now, id, from))?;
        }
        while !self.server.in_turn(move |verbs, _| verbs.is_forgotten(id))? {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

fn obstacle(quiescence: &Quiescence, dirty: DirtyFate) -> String {
    let Quiescence { have_ended, not_clean, .. } = *quiescence;
    if !have_ended {
        return "requests of its clients do not end, because its origin does not respond; correct that (the status shows the \
                error), or stop the daemon"
            .into();
    }
    match dirty {
        DirtyFate::WrittenBack if not_clean > 0 => format!(
            "{} {} not written back yet; drain it, or use --abandon-dirty",
            counted(not_clean, "dirty block"),
            are(not_clean)
        ),
        DirtyFate::WrittenBack | DirtyFate::Abandoned => {
            "its origin does not complete its requests, or a flush".into()
        }
    }
}
