//! The parts of a comparison, as displayed names.

/// The displayed names of the load and the devices.
pub(crate) struct SetupNames {
    pub(crate) load: String,
    pub(crate) origin: String,
    pub(crate) cache: String,
}
