//! From a plan to servers.
//!
//! * [`servers`]: the steps in order; [`rehearsal`]: checks without a change.
//! * [`refusal`], [`missing_origin`], [`skipped_volumes`], [`unserved_volumes`]: errors, and volumes that are
//!   not served.
//! * [`service_decision`]: whether a cache device is used; [`no_cache_check`], [`stale_cache_check`]: its
//!   parts.
//! * [`socket_activation`]: sockets of a service manager; [`folders`]: folders of sockets and of the state.

pub(crate) mod folders;
pub(crate) mod missing_origin;
pub(crate) mod no_cache_check;
pub(crate) mod refusal;
pub(crate) mod rehearsal;
pub(crate) mod servers;
pub(crate) mod service_decision;
pub(crate) mod skipped_volumes;
pub(crate) mod socket_activation;
pub(crate) mod stale_cache_check;
pub(crate) mod unserved_volumes;
