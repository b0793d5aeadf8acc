//! A volume with its opened origin, before it is served.

use kickcache_engine::config::VolumeSettings;
use kickcache_engine::device::Device;
use kickcache_tls::names::AllowedClient;

use crate::devices::bypassed_device::Sameness;
use crate::devices::recognition::{Recognised, recognise, warn_of_weak};
use crate::devices::state::OriginLock;
use crate::devices::stop_record_check::{LastStop, OriginCheck};
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::identity::Identified;
use crate::driver::device::{AccessMode, ZeroSpeed};
use crate::driver::executor::NamedMedium;
use crate::plan::client_cap::ClientCap;
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;
use crate::serve::origin::Origin;
use crate::serve::served_volumes::Volume;
use crate::serve::volume_info::VolumeInfo;

pub(crate) struct OpenVolume {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) size: u64,
    pub(crate) identified: Identified,
    /// The identity for records: the present one, or a recorded weak identity of an older version.
    pub(crate) identity: String,
    /// Checks that need the cached blocks.
    pub(crate) check: OriginCheck,
    /// The volume, with its earlier identities.
    pub(crate) known_as: VolumeIdentity,
    pub(crate) settings: VolumeSettings,
    pub(crate) client_cap: ClientCap,
    pub(crate) access: AccessMode,
    pub(crate) claims: OriginClaims,
    pub(crate) zeroes: ZeroSpeed,
    /// The names of NBD clients that may use the volume; empty if all may.
    pub(crate) allowed: Vec<AllowedClient>,
    pub(crate) locks: Vec<OriginLock>,
}

pub(crate) struct OpenVolumeState {
    pub(crate) volume: Volume,
    pub(crate) medium: NamedMedium,
    pub(crate) client_cap: ClientCap,
}

impl OpenVolume {
    /// Recognises the origin by the identity in a superblock. Without one, warns of a weak identity.
    pub(crate) fn recognise(&mut self, recorded: Option<&str>, state: &StatePlace) {
        let path = self.origin.local().map(|file| file.path().to_path_buf()).unwrap_or_default();
        if recorded.is_none() {
            warn_of_weak(&self.name, &self.identified, &path);
        }
        let Recognised { identity, doubt } =
            recognise(&self.identified, recorded, path, Sameness::of(self.claims));
        let doubt = doubt.filter(|_| !self.claims.changed);
        let last_stop = LastStop::of(state, &identity, self.claims);
        self.known_as = VolumeIdentity::of_origin(&self.name, &identity);
        self.identity = identity;
        self.check = OriginCheck { doubt, last_stop };
    }

    pub(crate) fn is_recognised_by(&self, recorded: &str) -> bool {
        recorded == self.identity || self.identified.recognises(recorded).is_some()
    }

    pub(crate) fn into_served(self) -> OpenVolumeState {
        let id = self.settings.volume;
        let info = VolumeInfo {
            name: self.name,
            id,
            size: self.size,
            origin: self.identity,
            read_only: self.access == AccessMode::ReadOnly,
        };
        let (identity, zeroes) = (self.known_as, self.zeroes);
        let volume = Volume { info, identity, zeroes, allowed: self.allowed, _locks: self.locks };
        let medium = NamedMedium { device: Device::Origin(id), medium: self.origin.into_medium() };
        OpenVolumeState { volume, medium, client_cap: self.client_cap }
    }
}
