//! What a comparison is made of, for people.

/// The load and the devices, as people are told of them.
pub(crate) struct SetupNames {
    pub(crate) load: String,
    pub(crate) origin: String,
    pub(crate) cache: String,
}
