//! Removing a volume while its server serves others: the steps outside of the loop.

use std::path::PathBuf;

use crate::devices::cache_device::store_superblock;
use crate::operations::superblock_wait::when_free;
use crate::serve::error::ServeError;
use crate::serve::frontend::{check_unused, wait_until_gone};
use crate::serve::server::ServerHandle;
use crate::serve::verbs::membership::{EmptyVolume, LeaveOrder, Members, MembershipOrder};

/// A removed volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemovedVolume {
    /// Blocks that the origin lacks or has not flushed, because the order was to abandon them.
    pub(crate) lost_blocks: u64,
}

/// Refuses the removal while another process has the volume's block device open; returns the device.
fn check_device(server: &ServerHandle, name: &str) -> Result<Option<PathBuf>, ServeError> {
    let members: Members = server.ask_membership(MembershipOrder::Members)??;
    let device = members.member(name).and_then(|member| member.block_device.clone());
    let refuse = |what| ServeError::Volume { name: name.into(), what };
    device.iter().try_for_each(|path| check_unused(path)).map_err(refuse)?;
    Ok(device)
}

/// Removes a volume: its blocks first, durably, then its name, then its records. Waits 5 s at most for its clients and its origin.
///
/// # Errors
/// The volume stays unchanged: it has clients or dirty blocks, or is the last one; if the cache device fails, the volume is removed from the loop only.
pub(crate) fn part(server: &ServerHandle, order: &LeaveOrder) -> Result<RemovedVolume, ServeError> {
    let name = order.name.clone();
    let device = check_device(server, &name)?;
    let EmptyVolume { id, lost_blocks, mut lease } =
        when_free(|| server.ask_membership(|answer| MembershipOrder::Leave(order.clone(), answer))?)?;
    lease.superblock.volumes.retain(|record| record.id != id);
    let stored = store_superblock(&lease.cache, &mut lease.superblock);
    let superblock = stored.is_ok().then(|| Box::new(lease.superblock));
    let gone = server.ask_membership(|answer| MembershipOrder::EndLeave(superblock, answer))?;
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
