//! How the lives of a run end.

use crate::plan::aim::Aim;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Lives that end with a power cut, in 1/1000 of the lives before the last one.
    pub power_cut: u64,
    /// Lives that end with a kill, in 1/1000 of the lives before the last one.
    pub kill: u64,
    /// Kills that a power cut follows, in 1/1000.
    pub kill_then_cut: u64,
    pub aim: Aim,
    /// Lives that end with a crash while all blocks are read that were ever touched, in 1/1000 of the lives with a
    /// crash after recovery.
    pub during_verify: u64,
    /// Lives that end with a crash during recovery, or at its end, in 1/1000 of the lives with a crash.
    pub during_recovery: u64,
    /// Lives that begin with a read of all blocks that were ever touched, in 1/1000 of the lives before the last one
    /// without such a crash.
    pub verify: u64,
}
