//! The figures of a report.

/// Figures that fio and stored runs have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// Reads and writes a second, of all jobs.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean latency.
    Mean,
    /// Latency that this percentage of requests does not exceed.
    Percentile(f64),
}
