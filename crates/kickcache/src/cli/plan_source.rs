//! Where a daemon's plan comes from, to be read once more while it runs.

use kickcache_daemon::plan::ServePlan;

use crate::cli::exit::Failure;

type Read = dyn Fn() -> Result<ServePlan, Failure> + Send + Sync;

/// The configuration file of a daemon, if it was started with one.
pub(super) struct PlanSource(Option<Box<Read>>);

impl PlanSource {
    /// Nothing that can be read again.
    pub(super) const FLAGS: PlanSource = PlanSource(None);

    /// A file, and how it is read.
    pub(super) fn file(read: impl Fn() -> Result<ServePlan, Failure> + Send + Sync + 'static) -> PlanSource {
        PlanSource(Some(Box::new(read)))
    }

    /// Whether there is a file.
    pub(super) fn is_file(&self) -> bool {
        self.0.is_some()
    }

    /// The plan of the file as it is now.
    ///
    /// # Errors
    /// There is no file, it cannot be read, or it is wrong.
    pub(super) fn read(&self) -> Result<ServePlan, Failure> {
        match &self.0 {
            Some(read) => read(),
            None => Err(anyhow::anyhow!(
                "the daemon was started with flags, and has no configuration file to read again; `kickcache add`, \
                 `remove` and `mode` change what it serves"
            )
            .into()),
        }
    }
}
