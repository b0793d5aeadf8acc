//! A volume takes over the size of its origin, which was extended while it is served.
//!
//! Each resize is a script on a thread of its own, because each step may wait for a device without a limit: the origin reports
//! its size, the superblock gets it, and only then the event loop reports it to clients. A caller is answered after 8 s at the
//! latest; a later caller waits for the running script.

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::devices::cache_device::store_superblock;
use crate::driver::clock::WatchedTime;
use crate::serve::error::ServeError;
use crate::serve::server::{Growth, Resized, ServerHandle};
use crate::serve::verbs::resizes::{OriginToResize, SizeLease};

/// The longest wait of a caller for devices: less than a client's wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// The longest time between two readings of a caller's stopwatch.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The resizes in progress, one a volume.
#[derive(Default)]
pub(crate) struct Resizes(Mutex<Vec<Arc<Resize>>>);

/// A resize in progress.
struct Resize {
    volume: String,
    progress: Mutex<Progress>,
    changed: Condvar,
}

struct Progress {
    /// The device that the script waits for.
    awaited: AwaitedDevice,
    has_caller: bool,
    result: Option<Result<Resized, ServeError>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AwaitedDevice {
    Origin,
    Cache,
}

impl Resizes {
    /// Resizes a volume, or waits for its running resize if no other caller does.
    ///
    /// # Errors
    /// The volume is not served, another caller waits for its resize, the origin cannot report its size or is smaller than before,
    /// the superblock cannot be written; [`ServeError::StillRunning`] after [`ANSWER_MAX`], and [`ServeError::Stopped`].
    pub(crate) fn resize(
        self: &Arc<Resizes>,
        server: &ServerHandle,
        volume: &str,
    ) -> Result<Resized, ServeError> {
        let resize = self.join(volume).map_or_else(|| self.begin(server, volume), Ok)?;
        let mut waited = WatchedTime::begin();
        let mut progress = lock(&resize.progress);
        while progress.result.is_none() && waited.look() < ANSWER_MAX {
            let next = resize.changed.wait_timeout(progress, LOOK_EVERY);
            progress = next.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.has_caller = false;
        let awaited = progress.awaited;
        if let Some(result) = progress.result.take() {
            return result;
        }
        drop(progress);
        Err(late(server, volume, awaited)?)
    }

    /// The running resize of a volume, if no caller waits for it.
    fn join(&self, volume: &str) -> Option<Arc<Resize>> {
        let running = lock(&self.0).iter().find(|resize| resize.volume == volume).cloned()?;
        let mut progress = lock(&running.progress);
        let is_free = !progress.has_caller && progress.result.is_none();
        progress.has_caller |= is_free;
        drop(progress);
        is_free.then_some(running)
    }

    fn begin(self: &Arc<Resizes>, server: &ServerHandle, volume: &str) -> Result<Arc<Resize>, ServeError> {
        let origin = {
            let volume = volume.to_owned();
            server.in_turn(move |verbs, _| verbs.begin_resize(&volume))??
        };
        let progress = Progress { awaited: AwaitedDevice::Origin, has_caller: true, result: None };
        let (progress, changed) = (Mutex::new(progress), Condvar::new());
        let resize = Arc::new(Resize { volume: volume.into(), progress, changed });
        lock(&self.0).push(Arc::clone(&resize));
        let (resizes, begun, server_of) = (Arc::clone(self), Arc::clone(&resize), server.clone());
        let id = origin.volume;
        let script = move || {
            let result = begun.run(&server_of, &origin);
            resizes.end(&begun, result);
        };
        if let Err(error) = thread::Builder::new().name("resize".into()).spawn(script) {
            drop(server.in_turn(move |verbs, _| verbs.end_resize(id, None)));
            self.end(&resize, Err(ServeError::system("start a thread")(error)));
        }
        Ok(resize)
    }

    fn end(&self, resize: &Arc<Resize>, result: Result<Resized, ServeError>) {
        lock(&self.0).retain(|running| !Arc::ptr_eq(running, resize));
        lock(&resize.progress).result = Some(result);
        resize.changed.notify_all();
    }
}

impl Resize {
    /// The script.
    fn run(&self, server: &ServerHandle, origin: &OriginToResize) -> Result<Resized, ServeError> {
        let id = origin.volume;
        let outcome = self.take_size(server, origin);
        let superblock = outcome.as_ref().ok().and_then(|outcome| outcome.superblock.clone());
        server.in_turn(move |verbs, _| verbs.end_resize(id, superblock))?;
        outcome.map(|outcome| outcome.resized)
    }

    fn take_size(&self, server: &ServerHandle, origin: &OriginToResize) -> Result<Outcome, ServeError> {
        let volume = &self.volume;
        let size = origin.file.size_today().map_err(|error: io::Error| ServeError::Volume {
            name: volume.clone(),
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
        lock(&self.progress).awaited = AwaitedDevice::Cache;
        let SizeLease { superblock, cache } = wait_for_superblock(server, origin.volume)?;
        // The superblock is made again, as it may have changed for other volumes meanwhile.
        let Some(mut superblock) = grown(server, &superblock, volume, size)? else {
            return Ok(Outcome::unchanged(size));
        };
        if let Some(cache) = cache {
            store_superblock(&cache, &mut superblock).inspect_err(|error| {
                tracing::error!(
                    event = "record_failed",
                    volume,
                    "cannot record the size of {volume}: {error}"
                );
            })?;
        }
        Ok(Outcome { resized: Resized { size, growth: Growth::Grown }, superblock: Some(superblock) })
    }
}

/// The end of a script.
struct Outcome {
    resized: Resized,
    /// The superblock with the new size, as on the cache device; `None` if the size is unchanged.
    superblock: Option<Box<Superblock>>,
}

impl Outcome {
    fn unchanged(size: u64) -> Outcome {
        Outcome { resized: Resized { size, growth: Growth::Unchanged }, superblock: None }
    }
}

/// Waits until no other operation writes the superblock.
fn wait_for_superblock(server: &ServerHandle, volume: VolumeId) -> Result<SizeLease, ServeError> {
    let (answer, answered) = mpsc::channel();
    server.in_turn(move |verbs, _| verbs.wait_for_superblock(volume, answer))?;
    answered.recv().map_err(|_| ServeError::Stopped)?
}

/// The superblock with another size of a volume; `None` if the volume has that size already.
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

/// The answer to a caller that has waited for the limit; it names the device that has not responded.
fn late(server: &ServerHandle, volume: &str, awaited: AwaitedDevice) -> Result<ServeError, ServeError> {
    let name = volume.to_owned();
    let device = server.in_turn(move |verbs, _| {
        let device = match awaited {
            AwaitedDevice::Origin => Device::Origin(verbs.volume_id(&name)?),
            AwaitedDevice::Cache => Device::Cache,
        };
        Ok::<_, ServeError>(verbs.show_device(device))
    })??;
    let what = match awaited {
        AwaitedDevice::Origin => "has not reported its size",
        AwaitedDevice::Cache => "has not taken the new size",
    };
    let what = format!(
        "{device} {what} for 8 s; the new size is used when the device responds: check the device, or repeat the command"
    );
    Ok(ServeError::StillRunning { device: format!("volume {volume}"), what })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
