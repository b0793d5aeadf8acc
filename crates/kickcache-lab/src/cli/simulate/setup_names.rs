//! The parts of a comparison, as displayed names.

pub(crate) struct SetupNames {
    pub(crate) load: String,
    pub(crate) origin: String,
    pub(crate) cache: String,
}
