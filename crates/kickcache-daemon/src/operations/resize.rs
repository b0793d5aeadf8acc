//! A volume takes over the size of its origin, which was extended while it is served.
//!
//! The superblock gets the new size before clients get it.

use std::io;
use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;

use crate::devices::cache_device::store_superblock;
use crate::operations::held_superblock::{HeldSuperblock, LeaseWait};
use crate::operations::script::{Script, Scripts};
use crate::serve::error::ServeError;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::growth::Growth;
use crate::serve::verbs::resizes::{AwaitedDevice, OriginToResize, Resized};
use crate::serve::verbs::superblock_lease::SuperblockWriter;

/// The resizes in progress.
pub(crate) type Resizes = Scripts<Resized>;

/// Resizes a volume. If its resize is running and no other caller waits for it, the new one begins after its
/// end.
///
/// # Errors
/// The volume is not served, another caller waits for its resize, the origin cannot report its size or is
/// smaller than before, the superblock cannot be written; [`ServeError::StillRunning`] if a device does not
/// respond for 8 s, and [`ServeError::Stopped`].
pub(crate) fn resize(
    resizes: &Arc<Resizes>,
    server: &ServerHandle,
    volume: &str,
) -> Result<Resized, ServeError> {
    if let Some(running) = resizes.join(volume)
        && running.wait().is_none()
    {
        return Err(late(server, volume)?);
    }
    let name = volume.to_owned();
    let origin = server.in_turn(move |verbs, _| verbs.begin_resize(&name))??;
    let answer = begin(resizes, server, volume, origin)?.wait();
    answer.unwrap_or_else(|| Err(late(server, volume)?))
}

fn late(server: &ServerHandle, volume: &str) -> Result<ServeError, ServeError> {
    let name = volume.to_owned();
    let (awaited, device) = server.in_turn(move |verbs, _| {
        let awaited = verbs.awaited_by_resize(&name)?;
        Ok::<_, ServeError>((awaited, verbs.show_device(awaited.device())))
    })??;
    let what = match awaited {
        AwaitedDevice::Origin(_) => "has not reported its size",
        AwaitedDevice::Cache => "has not taken the new size",
    };
    let what = format!(
        "{device} {what} for 8 s; the new size is used when the device responds: check the device, or repeat the command"
    );
    Ok(ServeError::StillRunning { device: format!("volume {volume}"), what })
}

fn begin(
    resizes: &Arc<Resizes>,
    server: &ServerHandle,
    volume: &str,
    origin: OriginToResize,
) -> Result<Arc<Script<Resized>>, ServeError> {
    let (server_of, name, id) = (server.clone(), volume.to_owned(), origin.resize);
    let started = resizes.start(volume, move |answer| {
        let (resized, stored) = match take_size(&server_of, &name, &origin) {
            Ok(Outcome { resized, stored }) => (Ok(resized), stored),
            Err(error) => (Err(error), None),
        };
        let (superblock, held) = stored.map(|stored| (stored.superblock, stored.held)).unzip();
        let ended = server_of.in_turn(move |verbs, _| verbs.end_resize(id, superblock));
        drop(held);
        answer(ended.and(resized));
    });
    // If the loop has ended, the resize has ended with it.
    started.inspect_err(|_| drop(server.in_turn(move |verbs, _| verbs.end_resize(id, None))))
}

struct Outcome {
    resized: Resized,
    /// `None` if the size is unchanged.
    stored: Option<StoredSize>,
}

/// The superblock with the new size, and the right to write it.
struct StoredSize {
    superblock: Box<Superblock>,
    held: HeldSuperblock,
}

impl Outcome {
    fn unchanged(size: u64) -> Outcome {
        Outcome { resized: Resized { size, growth: Growth::Unchanged }, stored: None }
    }
}

fn take_size(server: &ServerHandle, volume: &str, origin: &OriginToResize) -> Result<Outcome, ServeError> {
    let size = origin.file.size_today().map_err(|error: io::Error| ServeError::Volume {
        name: volume.into(),
        what: format!("the size of its origin cannot be found: {error}"),
    })?;
    if grown(server, &origin.superblock, volume, size)?.is_none() {
        tracing::info!(
            event = "volume_size_unchanged",
            volume,
            "the size of {volume} is unchanged: {size} bytes"
        );
        return Ok(Outcome::unchanged(size));
    }
    let id = origin.resize;
    let held = HeldSuperblock::wait(server, SuperblockWriter::Resize(id), LeaseWait::Unlimited)?;
    // The superblock is made again, as it may have changed for other volumes meanwhile.
    let Some(mut superblock) = grown(server, &held.superblock, volume, size)? else {
        return Ok(Outcome::unchanged(size));
    };
    if let Some(cache) = &held.cache {
        store_superblock(cache, &mut superblock).inspect_err(|error| {
            tracing::error!(event = "record_failed", volume, "cannot record the size of {volume}: {error}");
        })?;
    }
    let resized = Resized { size, growth: Growth::Grown };
    Ok(Outcome { resized, stored: Some(StoredSize { superblock, held }) })
}

/// The superblock with another size of a volume.
fn grown(
    server: &ServerHandle,
    before: &Superblock,
    volume: &str,
    size: u64,
) -> Result<Option<Box<Superblock>>, ServeError> {
    let mut superblock = Box::new(before.clone());
    let grown = superblock.grow_volume(volume, size);
    grown.map_err(|source| ServeError::Engine { path: server.device(), source })?;
    let is_known = before.volume(volume).is_some_and(|known| known.origin_size == size);
    Ok(if is_known { None } else { Some(superblock) })
}
