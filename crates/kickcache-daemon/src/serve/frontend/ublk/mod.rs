//! Volumes as block devices of this host, by the kernel's ublk driver: what the kernel says, and what is said to it.

pub(crate) mod abi;
pub(crate) mod description;
pub(crate) mod parameters;
