//! Adds a volume to a running server.

use std::path::Path;

use kickcache_engine::format::superblock::Superblock;
use kickcache_units::{are, counted};

use crate::devices::cache_device::{attach, store_superblock};
use crate::devices::device_opening::{candidate, check_late, facts, open_held};
use crate::devices::open_volume::OpenVolume;
use crate::devices::reservation_check::check_rooms;
use crate::devices::state::uuid_text;
use crate::devices::stop_record_check::{Finding, warn_of_no_proof};
use crate::driver::device::{AccessMode, BlockFile, check_different};
use crate::operations::held_superblock::{HeldSuperblock, LeaseWait};
use crate::plan::address::NbdAddress;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::frontend::check_path;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::known_volume::KnownVolume;
use crate::serve::origin::check_not_own;
use crate::serve::origin::compare as compare_blocks;
use crate::serve::server::{ServerContext, ServerHandle};
use crate::serve::verbs::membership::{Members, NewVolume, VolumeBlockCount};
use crate::serve::verbs::superblock_lease::SuperblockWriter;
use crate::shell_command::ShellCommand;

/// A checked volume that can be served.
pub(crate) struct ReadyVolume {
    volume: OpenVolume,
    places: OpenPlaces,
}

/// Opens and checks a volume. `opened` are addresses of volumes that are prepared already and join before this
/// one, which may share them.
///
/// # Errors
/// The volume cannot be served, the cache device is not in service, or [`ServeError::Stopped`].
pub(crate) fn prepare(
    server: &ServerHandle,
    spec: &VolumeSpec,
    opened: &[NbdAddress],
) -> Result<ReadyVolume, ServeError> {
    let ServerContext { cache: path, state, exposure, stop_wish, .. } = &server.context();
    let members: Members = server.in_turn(|verbs, _| verbs.members())??;
    check_apart(spec, &members)?;
    check_not_own(spec)?;
    let mut volume = open_held(spec, state, stop_wish)?;
    if let Some(origin) = volume.origin.local() {
        check_different(&members.cache, origin)?;
        members.origins.iter().try_for_each(|other| check_different(other, origin))?;
    }
    check_late(&mut volume, spec, &members.superblock, path, state)?;
    compare(server, &mut volume, &members, state)?;
    let mut places = OpenPlaces::open(spec, None, &[&members.addresses, opened].concat(), *exposure)?;
    let (identity, size, access) = (volume.known_as.clone(), volume.size, volume.access);
    places.open_device(spec, None, &KnownVolume { identity, size, access }, members.io_engine)?;
    Ok(ReadyVolume { volume, places })
}

/// Refuses an origin on a block device that this daemon serves.
fn check_apart(spec: &VolumeSpec, members: &Members) -> Result<(), ServeError> {
    let own: Vec<_> = members.volumes.iter().map(|member| member.volume.identity.clone()).collect();
    let refuse = |what| ServeError::Volume { name: spec.name.clone(), what };
    spec.origin.path().map_or(Ok(()), |path| check_path(path, &own).map_err(refuse))
}

/// Checks earlier blocks of the volume on the cache device: they must match this origin, and must not be
/// dirty if the origin is read-only.
fn compare(
    server: &ServerHandle,
    volume: &mut OpenVolume,
    members: &Members,
    state: &StatePlace,
) -> Result<(), ServeError> {
    let refuse = |what: String| ServeError::Volume { name: volume.name.clone(), what };
    let mut superblock = members.superblock.clone();
    let is_known = superblock.volume(&volume.name).is_some();
    let id = attach(&mut superblock, members.cache.path(), facts(volume, state))?;
    let held = match is_known {
        true => server.in_turn(move |verbs, _| verbs.unserved_blocks(id))?,
        false => VolumeBlockCount { cached: 0, not_clean: 0, samples: Vec::new() },
    };
    if volume.access == AccessMode::ReadOnly && held.not_clean > 0 {
        return Err(refuse(format!(
            "the cache holds {} that its origin lacks; serve it writable and drain it before serving it read-only",
            counted(held.not_clean, "dirty block")
        )));
    }
    volume.origin.compare(&held.samples).map_err(refuse)?;
    confirm(volume, &held, members.cache.path(), state)
}

/// Compares a file or block device with clean blocks.
fn confirm(
    volume: &mut OpenVolume,
    held: &VolumeBlockCount,
    cache: &Path,
    state: &StatePlace,
) -> Result<(), ServeError> {
    let Some(file) = volume.origin.local() else { return Ok(()) };
    let samples = if volume.check.needs_samples() { held.samples.as_slice() } else { &[] };
    let compared = compare_blocks(file, samples);
    let refuse = |what| ServeError::Volume { name: volume.name.clone(), what };
    match volume.check.decide(held.cached, &compared).map_err(refuse)? {
        Finding::Same => {}
        Finding::NoProof(count) => warn_of_no_proof(&volume.name, count),
        Finding::Changed(why) => {
            let detach = ShellCommand::new("detach").path(cache).word(&volume.name).state(state);
            return Err(refuse(format!(
                "its origin was changed while it was not served ({why}), and {} of its blocks {} cached; \
                 stop the daemon, and start it with this volume, which drops the clean blocks, or run \
                 {detach}",
                counted(held.cached, "block"),
                are(held.cached)
            )));
        }
    }
    if let Some(newer) = volume.check.doubt.take().and_then(|doubt| doubt.newer) {
        volume.known_as.origins.insert(0, newer.clone());
        volume.identity = newer;
    }
    Ok(())
}

/// Serves a prepared volume: first its name is stored durably, then its records are written, and then the
/// loop serves the volume.
///
/// # Errors
/// The volume is not served; its name may stay on the cache device.
pub(crate) fn join(server: &ServerHandle, ready: ReadyVolume) -> Result<(), ServeError> {
    let (context, notes) = (server.context(), server.notes());
    let ReadyVolume { mut volume, places } = ready;
    let held = HeldSuperblock::wait(server, SuperblockWriter::Membership, LeaseWait::Short)?;
    let cache = held.cache.as_ref().ok_or(ServeError::Stopped)?;
    let mut superblock = held.superblock.clone();
    let name = volume.name.clone();
    let recorded = record(&mut superblock, &mut volume, cache, &context);
    let recorded = recorded.and_then(|()| {
        let noted = notes.as_ref().map_or(Ok(()), |notes| {
            notes.join(volume.settings.volume, &candidate(&volume, &held.superblock))
        });
        // Removes the stored name again, although a name without cached blocks is harmless.
        noted.inspect_err(|_| drop(store_superblock(cache, &mut held.superblock.clone())))
    });
    recorded?;
    let id = volume.settings.volume;
    let joining = NewVolume { superblock, volume, places, exposure: context.exposure };
    let joined = server.in_turn(move |verbs, now| verbs.join(now, joining)).and_then(|done| done);
    if joined.is_err() {
        notes.into_iter().for_each(|notes| notes.undo_join(id));
    }
    joined?;
    tracing::info!(event = "volume_added", volume = name, "{name} is served");
    Ok(())
}

fn record(
    superblock: &mut Superblock,
    volume: &mut OpenVolume,
    cache: &BlockFile,
    ServerContext { state, .. }: &ServerContext,
) -> Result<(), ServeError> {
    let path: &Path = cache.path();
    let before = superblock.clone();
    volume.settings.volume = attach(superblock, path, facts(volume, state))?;
    volume.known_as.cache = Some(uuid_text(superblock.uuid));
    if before == *superblock {
        return Ok(());
    }
    store_superblock(cache, superblock)
}

/// Checks that the cache device has the room that these volumes are promised together.
///
/// # Errors
/// If it has too little room, or is not in service.
pub(crate) fn check_promised(server: &ServerHandle, volumes: &[VolumeSpec]) -> Result<(), ServeError> {
    let members: Members = server.in_turn(|verbs, _| verbs.members())??;
    check_rooms(&server.device(), &members.superblock.geometry, volumes)
}
