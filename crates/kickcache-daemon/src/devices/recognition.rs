//! Whether an origin is the disk whose blocks a cache device has.
//!
//! A weak identity may be another disk's after a restart. Samples of clean blocks prove a difference, and no sameness:
//! disks that were cloned agree in most blocks. Equal samples count only if no other disk can have taken the name.

use std::path::PathBuf;

use kickcache_units::{are, counted};

use crate::devices::bypassed_device::Sameness;
use crate::driver::device::identity::{Identified, Strength, stable_path};
use crate::serve::origin::ComparedBlocks;
use crate::shell_command::Flag;

/// Samples that an origin with cached blocks must have for its weak identity to be accepted without the user's
/// confirmation.
const SAMPLES_MIN: usize = 16;

/// An origin that may be another disk than the recorded one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Doubt {
    pub(crate) path: PathBuf,
    /// Other disks that may have had this identity.
    pub(crate) peers: Vec<PathBuf>,
    pub(crate) sameness: Sameness,
    /// A new identity, which is recorded once the origin was compared.
    pub(crate) newer: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Recognised {
    pub(crate) identity: String,
    pub(crate) doubt: Option<Doubt>,
}

/// Recognises an origin at a path; `recorded` is the origin's identity in the superblock.
pub(crate) fn recognise(
    identified: &Identified,
    recorded: Option<&str>,
    path: PathBuf,
    sameness: Sameness,
) -> Recognised {
    let own = identified.identity.clone();
    let doubt = |peers: &[PathBuf], newer| Some(Doubt { path, peers: peers.into(), sameness, newer });
    match recorded.map(|recorded| (recorded, identified.recognises(recorded))) {
        None | Some((_, Some(Strength::Strong))) => Recognised { identity: own, doubt: None },
        Some((recorded, Some(Strength::Weak))) if recorded == own => {
            Recognised { identity: own, doubt: doubt(&identified.peers, None) }
        }
        Some((recorded, Some(Strength::Weak))) => {
            let doubt = doubt(&identified.older_peers, Some(own));
            Recognised { identity: recorded.into(), doubt }
        }
        // The origin has another identity, and is refused unless the user confirms the disk.
        Some((_, None)) if identified.strength == Strength::Weak => {
            Recognised { identity: own, doubt: doubt(&[], None) }
        }
        Some((_, None)) => Recognised { identity: own, doubt: None },
    }
}

impl Doubt {
    /// Refuses an origin with `cached` cached blocks that may be another disk.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self, cached: u64, compared: &ComparedBlocks) -> Result<(), String> {
        let path = self.path.display();
        let confirm = Flag::new("--origin-is", self.path.as_os_str());
        if let Some(difference) = compared.difference() {
            return Err(format!(
                "its origin {path} is another disk, or was changed: {difference}; give the previous \
                 disk, or use --origin-changed, which drops the cached blocks"
            ));
        }
        if cached == 0 || self.sameness == Sameness::Said {
            return Ok(());
        }
        let blocks = counted(cached, "block");
        if let Some(peer) = self.peers.first() {
            return Err(format!(
                "{blocks} of it {} cached, and its origin {path} may be another disk: it has no identity \
                 of its own, and {} has the same size; use {confirm} if it is the previous disk",
                are(cached),
                peer.display()
            ));
        }
        if compared.count < SAMPLES_MIN {
            return Err(format!(
                "{blocks} of it {} cached, and its origin {path} may be another disk: it has no identity \
                 of its own, and only {} could be compared, of {SAMPLES_MIN} that are needed; use \
                 {confirm} if it is the previous disk",
                are(cached),
                counted(compared.count as u64, "clean block")
            ));
        }
        Ok(())
    }
}

pub(crate) fn warn_of_weak(volume: &str, identified: &Identified, path: &std::path::Path) {
    if identified.strength == Strength::Strong {
        return;
    }
    let remedy = match stable_path(path) {
        Some(stable) => format!("the path {} would be stable", stable.display()),
        None => "no path of it is stable; give the disk a serial number".into(),
    };
    tracing::warn!(
        event = "origin_identity_weak",
        "the origin of {volume}, {}, has no identity of its own: after a restart this may be the name of another disk; {remedy}",
        path.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::device::identity::OlderIdentity;

    fn doubt(peers: &[&str], sameness: Sameness) -> Doubt {
        let peers = peers.iter().map(Into::into).collect();
        Doubt { path: "/dev/vdb".into(), peers, sameness, newer: None }
    }

    fn compared(count: usize, different: &[u64]) -> ComparedBlocks {
        ComparedBlocks { count, different: different.into() }
    }

    #[test]
    fn a_weak_identity_needs_samples_and_no_other_disk() {
        let unsaid = |peers: &[&str]| doubt(peers, Sameness::Unsaid);
        assert_eq!(unsaid(&[]).check(100, &compared(16, &[])), Ok(()));
        assert_eq!(unsaid(&["/dev/vdc"]).check(0, &compared(0, &[])), Ok(()), "it has no cached blocks");
        let refused = [
            (unsaid(&[]), compared(15, &[]), "15 clean blocks"),
            (unsaid(&[]), compared(0, &[]), "0 clean blocks"),
            (unsaid(&["/dev/vdc"]), compared(64, &[]), "/dev/vdc has the same size"),
            (
                unsaid(&[]),
                compared(64, &[8192, 4096]),
                "2 of 64 compared blocks differ, the first at byte 4096",
            ),
        ];
        for (doubt, compared, part) in refused {
            let sentence = doubt.check(100, &compared).unwrap_err();
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn a_confirmed_disk_is_refused_only_if_it_differs() {
        let said = doubt(&["/dev/vdc"], Sameness::Said);
        assert_eq!(said.check(100, &compared(0, &[])), Ok(()));
        assert!(said.check(100, &compared(1, &[0])).is_err());
    }

    #[test]
    fn an_older_weak_identity_stays_recorded_until_blocks_are_compared() {
        let older = |name: &str, strength| OlderIdentity { identity: format!("block:{name}"), strength };
        let own = Identified {
            older: vec![older("/dev/disk/by-id/x", Strength::Strong), older("/dev/vdb", Strength::Weak)],
            older_peers: vec!["/dev/vdc".into()],
            ..Identified::strong("disk:serial:1".into())
        };
        let found = |recorded| recognise(&own, recorded, "/dev/vdb".into(), Sameness::Unsaid);
        for strong in [None, Some("disk:serial:1"), Some("block:/dev/disk/by-id/x"), Some("disk:serial:2")] {
            assert_eq!(found(strong), Recognised { identity: "disk:serial:1".into(), doubt: None });
        }
        let weak = found(Some("block:/dev/vdb"));
        assert_eq!(weak.identity, "block:/dev/vdb");
        let doubt = weak.doubt.unwrap();
        assert_eq!(doubt.newer.as_deref(), Some("disk:serial:1"));
        assert_eq!(doubt.peers, [PathBuf::from("/dev/vdc")]);
    }
}
