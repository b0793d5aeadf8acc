//! The identity of a volume in records that outlive its daemon.

/// A volume, as its cache device and its origin know it. Either may change under it: the cache device may be left out, or be
/// another one; the origin may have moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeIdentity {
    /// Its name.
    pub(crate) name: String,
    /// The uuid of the cache device that has it, if that is known.
    pub(crate) cache: Option<String>,
    /// The identity of its origin, followed by its identities before this start.
    pub(crate) origins: Vec<String>,
}

impl VolumeIdentity {
    /// A volume without a known cache device.
    pub(crate) fn of_origin(name: &str, origin: &str) -> VolumeIdentity {
        VolumeIdentity { name: name.into(), cache: None, origins: vec![origin.into()] }
    }
}
