//! The runs of fio that describe a device, and what they gave.

/// What fio does in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// It in a few words.
    pub(crate) name: &'static str,
    /// fio's name of the pattern.
    pub(crate) pattern: &'static str,
    /// Bytes of an access, as fio writes them.
    pub(crate) block: &'static str,
    /// Accesses in flight.
    pub(crate) depth: u32,
}

/// The runs that describe a device; all only read.
pub(crate) const PROBES: [Probe; 3] = [
    Probe { name: "4 KiB at random, one in flight", pattern: "randread", block: "4k", depth: 1 },
    Probe { name: "4 KiB at random, 32 in flight", pattern: "randread", block: "4k", depth: 32 },
    Probe { name: "1 MiB in order, 4 in flight", pattern: "read", block: "1m", depth: 4 },
];

/// What one run gave. Times are in microseconds, from submission to completion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Measured {
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The runs of [`PROBES`], in their order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Runs {
    pub(crate) single: Measured,
    pub(crate) deep: Measured,
    pub(crate) sequential: Measured,
}

impl Runs {
    /// Each run beside that of other runs.
    pub(crate) fn pairs(&self, other: &Runs) -> [(Measured, Measured); 3] {
        [(self.single, other.single), (self.deep, other.deep), (self.sequential, other.sequential)]
    }
}
