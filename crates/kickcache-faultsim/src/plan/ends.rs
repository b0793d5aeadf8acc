//! How the lives of a run end.

use crate::plan::aim::Aim;

/// How often events end a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Lives that end with a power cut, in 1/1000.
    pub power_cut: u64,
    /// Lives that end with a kill, in 1/1000; the others stop cleanly.
    pub kill: u64,
    /// Kills that a power cut follows, in 1/1000.
    pub kill_then_cut: u64,
    /// The kind of submission during which crashes happen.
    pub aim: Aim,
    /// Crashes during a read of all blocks, in 1/1000.
    pub during_verify: u64,
    /// Recoveries that the next crash interrupts, in 1/1000.
    pub during_recovery: u64,
    /// Crashes after which all blocks are read, in 1/1000.
    pub verify: u64,
}
