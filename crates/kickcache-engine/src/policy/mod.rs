//! Policies: they choose, and perform no operation of a device.

pub(crate) mod admission;
pub(crate) mod drain_end;
pub(crate) mod flush_budget;
pub(crate) mod ghost;
pub(crate) mod ghost_lists;
pub(crate) mod hand;
pub(crate) mod hold;
pub(crate) mod latencies;
pub(crate) mod load;
pub(crate) mod miniature;
pub(crate) mod offload;
pub(crate) mod origin_load;
pub(crate) mod pacing;
pub(crate) mod passage;
pub(crate) mod quota;
pub(crate) mod reserves;
pub(crate) mod retention;
pub(crate) mod returns;
pub(crate) mod shift;
pub(crate) mod spread;
pub(crate) mod stream;
pub(crate) mod throttle;
pub(crate) mod trials;
pub(crate) mod turn;
pub(crate) mod wear;
pub(crate) mod window;
