//! Which volume of a superblock an origin belongs to.

use std::path::Path;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::identity::{OlderIdentity, Strength};
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::shell_command::ShellCommand;

/// An origin, to be compared with the superblock's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginFacts<'a> {
    pub name: &'a str,
    pub size: u64,
    pub identity: &'a str,
    /// Identities that older versions of the daemon may have given the origin.
    pub older: &'a [OlderIdentity],
    pub claims: OriginClaims,
    pub state: &'a StatePlace,
}

impl OriginFacts<'_> {
    fn is_recognised_by(&self, recorded: &str) -> bool {
        recorded == self.identity || self.older.iter().any(|older| older.identity == recorded)
    }
}

/// The volume of an origin in a superblock, added if it is not known; `path` is the cache device's.
pub(crate) fn attach(
    superblock: &mut Superblock,
    path: &Path,
    origin: OriginFacts<'_>,
) -> Result<VolumeId, ServeError> {
    check_owner(superblock, origin)?;
    let refuse = |source| ServeError::Engine { path: path.into(), source };
    let Some(known) = superblock.volume(origin.name).cloned() else {
        return superblock.add_volume(origin.name, origin.size, origin.identity).map_err(refuse);
    };
    if is_grown(path, known.origin_size, origin)? {
        superblock.grow_volume(origin.name, origin.size).map_err(refuse)?;
    }
    if known.origin_identity != origin.identity {
        if !origin.claims.moved && !origin.is_recognised_by(&known.origin_identity) {
            let what = format!(
                "its origin is {}, but the cache belongs to {}; give that one, or use --origin-moved if \
                 it is the same disk under a new name",
                origin.identity, known.origin_identity
            );
            return Err(ServeError::Volume { name: origin.name.into(), what });
        }
        superblock.rename_origin(known.id, origin.identity).map_err(refuse)?;
    }
    Ok(known.id)
}

/// Whether an origin was extended, as the user claims; another change of its size is refused.
fn is_grown(path: &Path, known: u64, origin: OriginFacts<'_>) -> Result<bool, ServeError> {
    let is_larger = origin.size > known;
    if origin.size == known {
        return Ok(false);
    }
    if is_larger && origin.claims.grown {
        return Ok(true);
    }
    let hint = match is_larger {
        true => "use --origin-grown if it was extended",
        false => "restore its size",
    };
    let detach = ShellCommand::new("detach").path(path).word(origin.name).state(origin.state);
    let what = format!(
        "its origin has {} bytes, and had {known} when it was last served; give the right origin, \
         {hint}, or cache it again with the present size ({detach}, then serve it again; if blocks are \
         dirty, that needs --lose-dirty)",
        origin.size
    );
    Err(ServeError::Volume { name: origin.name.into(), what })
}

fn check_owner(superblock: &Superblock, origin: OriginFacts<'_>) -> Result<(), ServeError> {
    // With --origin-moved, a match by a weak older identity is ignored: another disk may have had it.
    let is_sure = |identity: &str| {
        let is_weak = |older: &OlderIdentity| older.identity == identity && older.strength == Strength::Weak;
        !origin.claims.moved || identity == origin.identity || !origin.older.iter().any(is_weak)
    };
    let is_other = |name: &str, identity: &str| {
        name != origin.name && origin.is_recognised_by(identity) && is_sure(identity)
    };
    let other = superblock.volumes.iter().find(|volume| is_other(&volume.name, &volume.origin_identity));
    let Some(other) = other else { return Ok(()) };
    let what = format!(
        "its origin {} belongs to the volume {} of this cache device; serve it under that name",
        origin.identity, other.name
    );
    Err(ServeError::Volume { name: origin.name.into(), what })
}
