//! A failed operation of a device, and its cause.

use kickcache_engine::device::Device;

/// A failed operation on a device, or a failed replacement of the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub device: Device,
    /// The operation: `read`, `write`, `flush`, `discard`, `write-zeroes`, or `replace`.
    pub operation: &'static str,
    /// The offset in bytes of the operation, or for zeroes of the part that failed; 0 for a flush and for `replace`.
    pub offset: u64,
    /// The length in bytes; see `offset`.
    pub length: u64,
    pub cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    Errno(i32),
    /// The device moved fewer bytes than it should, or reported too many.
    Short,
}

/// The first [`FAULTS_MAX`] faults since the last [`Faults::take`].
#[derive(Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
}

/// The most faults that are kept between two turns of the loop.
const FAULTS_MAX: usize = 1 << 16;

impl Faults {
    pub(crate) fn push(&mut self, fault: Fault) {
        if self.list.len() < FAULTS_MAX {
            self.list.push(fault);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.list)
    }
}
