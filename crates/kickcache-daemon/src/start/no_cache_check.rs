//! Checks before volumes are served without their cache device.

use std::path::Path;

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{are, counted};

use crate::devices::bypassed_device::missed;
use crate::devices::missed_device::{self, lose_dirty, new_cache};
use crate::devices::offline::OfflineError;
use crate::devices::offline::change::DirtyBlocks;
use crate::devices::offline::give_up::{AbandonedDevice, Needed, leave, needed, uuid_of};
use crate::devices::state::OriginRecord;
use crate::driver::device::{BlockFile, Emptiness};
use crate::error_sentence::error_sentence;
use crate::extents::{EXTENTS_LOGGED, show_extents};
use crate::plan::cache_spec::{CacheService, CacheSpec, Replacement, SkippedVolume};
use crate::plan::volume_spec::DirtyLoss;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::shell_command::Flag;
use crate::start::rehearsal::Rehearsal;
use crate::start::skipped_volumes::leave_unserved;
use crate::whole_path::whole_path;

/// How a user gives up dirty blocks on a cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossAcceptance {
    /// `--new-cache`
    NewCache,
    /// `--lose-dirty`
    LoseDirty,
}

impl LossAcceptance {
    fn flag(self, cache: &CacheSpec, volume: &VolumeSpec) -> Flag {
        match self {
            LossAcceptance::NewCache => new_cache(&cache.device),
            LossAcceptance::LoseDirty => lose_dirty(&volume.name),
        }
    }

    fn is_said(self, cache: &CacheSpec, volume: &VolumeSpec) -> bool {
        match self {
            LossAcceptance::NewCache => cache.replacement == Replacement::Accept,
            LossAcceptance::LoseDirty => volume.dirty_loss == DirtyLoss::Accepted,
        }
    }
}

/// Takes a cache device out of use if the user requests it. Volumes whose dirty blocks could be lost are
/// removed from the plan, unless the user accepts the loss.
pub(crate) fn leave_out(
    cache: &mut CacheSpec,
    state: &StatePlace,
    rehearsal: &Rehearsal<'_>,
) -> anyhow::Result<()> {
    match cache.service {
        CacheService::InService | CacheService::OutOfService | CacheService::WrittenBackOnly => return Ok(()),
        CacheService::LeftOut => {}
    }
    cache.volumes.iter().try_for_each(check_origin)?;
    let uuid = uuid_of(&cache.device);
    leave_missed(cache, state, uuid.as_deref(), LossAcceptance::LoseDirty);
    leave_dirty(cache, state)?;
    // The rehearsal comes before any data is given up.
    rehearsal.volumes(cache)?;
    let mut untold = None;
    for (loss, dirty) in [(DirtyLoss::Refused, DirtyBlocks::Keep), (DirtyLoss::Accepted, DirtyBlocks::Lose)] {
        let meant = cache.volumes.iter().filter(|volume| volume.dirty_loss == loss);
        let names: Vec<&str> = meant.map(|volume| volume.name.as_str()).collect();
        if !names.is_empty() {
            untold = leave_volumes(&cache.device, &names, dirty, state)?.or(untold);
        }
    }
    if cache.volumes.is_empty() {
        return Ok(());
    }
    let noted = note_left(cache, state)?;
    if let Some(error) = untold {
        tell_untold(&cache.device, &anyhow::Error::from(error), noted);
    }
    tracing::warn!(
        event = "cache_left_out",
        "{} is left out: its volumes are served from their origins alone",
        cache.device.display()
    );
    Ok(())
}

/// Drops the blocks of volumes on a cache device. If the device could not record this, returns the reason.
fn leave_volumes(
    device: &Path,
    names: &[&str],
    dirty: DirtyBlocks,
    state: &StatePlace,
) -> anyhow::Result<Option<OfflineError>> {
    let left = match leave(device, names, dirty, state) {
        // The origins of the remaining volumes are recorded as complete, or the user accepts the loss.
        Err(OfflineError::Unknown { source, .. }) => {
            AbandonedDevice { lost: Vec::new(), dropped: Vec::new(), untold: Some(*source) }
        }
        left => left?,
    };
    for (name, extents) in &left.lost {
        let blocks = extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
        let which = show_extents(extents, EXTENTS_LOGGED);
        let (dirty, are) = (counted(blocks, "dirty block"), are(blocks));
        tracing::error!(event = "dirty_lost", "{dirty} of {name} {are} LOST, as {which}");
    }
    for name in &left.dropped {
        tracing::warn!(
            event = "blocks_dropped",
            "volume {name}: its blocks that are dirty after a crash were dropped: the origin has them"
        );
    }
    Ok(left.untold)
}

/// Removes volumes from the plan if a cache device other than the chosen one may hold blocks that their
/// origin lacks, unless the user accepts the loss.
pub(crate) fn leave_missed(
    cache: &mut CacheSpec,
    state: &StatePlace,
    uuid: Option<&str>,
    go_on: LossAcceptance,
) {
    let why = |volume: &VolumeSpec| {
        let why = missed_of(cache, volume, state, uuid, go_on)?;
        Some(SkippedVolume { name: volume.name.clone(), why })
    };
    let refused = cache.volumes.iter().filter_map(why).collect();
    leave_unserved(cache, refused);
}

fn missed_of(
    cache: &CacheSpec,
    volume: &VolumeSpec,
    state: &StatePlace,
    uuid: Option<&str>,
    go_on: LossAcceptance,
) -> Option<String> {
    let whole = whole_path(&cache.device);
    // A missing origin is refused when it is opened.
    let identity = volume.origin.identity().ok()?;
    let flag = go_on.flag(cache, volume);
    let name = &volume.name;
    match missed(state, uuid, &identity) {
        Ok(Some(record)) if go_on.is_said(cache, volume) => {
            tracing::warn!(
                event = "dirty_given_up",
                "volume {name}: {flag} gives up the blocks of the volume on the cache device {}, which \
                 may include dirty blocks that the origin {identity} lacks; their number is unknown",
                record.cache_path.display()
            );
            None
        }
        // If the chosen device is missing or unreadable and has the recorded path, it may be the recorded
        // one: a later check decides.
        Ok(Some(record)) if uuid.is_some() || record.cache_path != whole => {
            let chosen = format!("{} is another one", cache.device.display());
            Some(missed_device::sentence(&record, &chosen, &flag, state))
        }
        Ok(_) => None,
        Err(error) if go_on.is_said(cache, volume) => {
            tracing::warn!(
                event = "dirty_given_up",
                "volume {name}: {flag} gives up the blocks of the volume on any other cache device, \
                 which may include dirty blocks that the origin {identity} lacks; their number is \
                 unknown: {error}"
            );
            None
        }
        Err(error) => Some(format!(
            "it is unknown whether a cache device holds blocks that its origin lacks: {error}, or use \
             {flag} to serve the volume without them"
        )),
    }
}

/// Removes volumes from the plan that have, or may have, dirty blocks on the cache device, unless the user
/// accepts the loss.
fn leave_dirty(cache: &mut CacheSpec, state: &StatePlace) -> anyhow::Result<()> {
    let kept = || cache.volumes.iter().filter(|volume| volume.dirty_loss == DirtyLoss::Refused);
    let names: Vec<&str> = kept().map(|volume| volume.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let refused = match needed(&cache.device, &names, state) {
        Ok(needed) => {
            let refuse = |Needed { name, dirty }: Needed| {
                let dirty = OfflineError::dirty(state, &cache.device, &name, dirty, lose_dirty(&name));
                SkippedVolume { name, why: dirty.to_string() }
            };
            needed.into_iter().map(refuse).collect()
        }
        Err(mut unknown @ OfflineError::Unknown { .. }) => {
            let lacking = kept().filter(|volume| !is_noted_complete(volume, state));
            let refuse = |volume: &VolumeSpec| {
                if let OfflineError::Unknown { lose, .. } = &mut unknown {
                    *lose = lose_dirty(&volume.name);
                }
                SkippedVolume { name: volume.name.clone(), why: error_sentence(&unknown) }
            };
            lacking.map(refuse).collect()
        }
        Err(error) => return Err(error.into()),
    };
    leave_unserved(cache, refused);
    Ok(())
}

fn is_noted_complete(volume: &VolumeSpec, state: &StatePlace) -> bool {
    let (Some(store), Ok(identity)) = (state.store(), volume.origin.identity()) else { return false };
    matches!(store.origin(&identity), Ok(Some(record)) if !record.may_be_dirty)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordOutcome {
    Yes,
    No,
}

/// Records that the origins are complete, and that blocks of them on a cache device are stale.
fn note_left(cache: &CacheSpec, state: &StatePlace) -> anyhow::Result<RecordOutcome> {
    let Some(store) = state.store() else { return Ok(RecordOutcome::No) };
    for volume in &cache.volumes {
        let identity = volume.origin.identity()?;
        let record = match store.origin(&identity) {
            Ok(Some(record)) => OriginRecord { may_be_dirty: false, written_without: true, ..record },
            Ok(None) | Err(_) => OriginRecord::without_cache(&identity, &volume.name),
        };
        store.keep_origin(&record)?;
    }
    Ok(RecordOutcome::Yes)
}

pub(crate) fn check_origin(volume: &VolumeSpec) -> anyhow::Result<()> {
    if let Some(path) = volume.origin.path() {
        BlockFile::open(path, volume.access, Emptiness::Refused)?;
    }
    Ok(())
}

fn tell_untold(device: &Path, error: &anyhow::Error, noted: RecordOutcome) {
    let device = device.display();
    match noted {
        RecordOutcome::Yes => tracing::warn!(
            event = "record_failed",
            "{device} could not record that it is out of use ({error:#}), but the state directory \
             records it: its blocks of these volumes are stale, and are not used"
        ),
        RecordOutcome::No => tracing::error!(
            event = "record_failed",
            "{device} could not record that it is out of use ({error:#}): format it before you use it again"
        ),
    }
}
