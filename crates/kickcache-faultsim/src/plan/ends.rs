//! How the lives of a run end.

use crate::plan::aim::Aim;

/// How often things happen to a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Lives that end with a power cut, in 1/1000.
    pub power_cut: u64,
    /// Lives that end with a kill, in 1/1000; the others stop cleanly.
    pub kill: u64,
    /// Kills after which the power goes off too, in 1/1000.
    pub kill_then_cut: u64,
    /// What crashes wait for.
    pub aim: Aim,
    /// Crashes that come while everything is read, in 1/1000.
    pub during_verify: u64,
    /// Recoveries in which the next crash comes, in 1/1000.
    pub during_recovery: u64,
    /// Crashes after which everything is read, in 1/1000.
    pub verify: u64,
}
