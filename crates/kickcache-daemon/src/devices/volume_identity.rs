//! The identity of a volume in records that outlive its daemon.

/// A volume's name, its cache device, and the identities of its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeIdentity {
    pub(crate) name: String,
    /// The uuid of the volume's cache device; `None` if it is unknown.
    pub(crate) cache: Option<String>,
    /// The present identity of the origin, followed by the identities that it had before this start.
    pub(crate) origins: Vec<String>,
}

impl VolumeIdentity {
    pub(crate) fn of_origin(name: &str, origin: &str) -> VolumeIdentity {
        VolumeIdentity { name: name.into(), cache: None, origins: vec![origin.into()] }
    }
}
