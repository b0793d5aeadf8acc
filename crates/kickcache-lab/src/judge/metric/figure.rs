//! The figures of a report.

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// Requests a second, of all jobs: reads and writes and, in fio's report, trims.
    Iops,
    /// Bytes a second of the same requests.
    Bandwidth,
    /// Mean latency in nanoseconds; in fio's report, that of completion.
    Mean,
    /// Latency in nanoseconds that this percentage of requests does not exceed.
    Percentile(f64),
}
