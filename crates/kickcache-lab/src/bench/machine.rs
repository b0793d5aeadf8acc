//! The machine of a measurement.

use std::fs;

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    /// The model name of the processors; their architecture if the kernel gives no name.
    pub(crate) processor: String,
    pub(crate) processor_count: usize,
    /// Bytes of memory; 0 if unknown.
    pub(crate) memory_bytes: u64,
    pub(crate) fio: String,
    pub(crate) kickcache: String,
    /// The commit that kickcache was built from, if that is known.
    pub(crate) commit: Option<String>,
}

impl Machine {
    pub(super) fn look(fio: String, commit: Option<&str>) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: field(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            processor_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10,
            fio,
            kickcache: env!("CARGO_PKG_VERSION").into(),
            commit: commit.map(str::to_owned),
        }
    }
}
