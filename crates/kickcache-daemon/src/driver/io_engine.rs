//! How devices are read and written.

/// How the devices are read and written.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum IoEngine {
    /// io_uring if the kernel permits it, otherwise threads
    #[default]
    Auto,
    /// io_uring, otherwise fail
    IoUring,
    /// A pool of threads with pread and pwrite
    Threads,
}

impl IoEngine {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            IoEngine::Auto => "auto",
            IoEngine::IoUring => "io_uring",
            IoEngine::Threads => "threads",
        }
    }
}
