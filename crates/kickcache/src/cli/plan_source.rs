//! The source of a daemon's plan, which a reload reads again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kickcache_daemon::plan::ServePlan;

use crate::cli::exit::Failure;

type Read = dyn Fn() -> Result<ServePlan, Failure> + Send + Sync;

/// The configuration file of a daemon, if it was started with one.
#[derive(Clone)]
pub(super) struct PlanSource(Option<SourceFile>);

#[derive(Clone)]
struct SourceFile {
    path: PathBuf,
    read: Arc<Read>,
}

impl PlanSource {
    /// Flags, which cannot be read again.
    pub(super) const FLAGS: PlanSource = PlanSource(None);

    /// A plan from a file, with the function that reads the file.
    pub(super) fn file(
        path: PathBuf,
        read: impl Fn() -> Result<ServePlan, Failure> + Send + Sync + 'static,
    ) -> PlanSource {
        PlanSource(Some(SourceFile { path, read: Arc::new(read) }))
    }

    /// The file, from the root.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|file| file.path.as_path())
    }

    /// Whether the plan comes from a file.
    pub(super) fn is_file(&self) -> bool {
        self.0.is_some()
    }

    /// The plan of the file as it is now.
    ///
    /// # Errors
    /// If there is no file, it cannot be read, or it is wrong.
    pub(super) fn read(&self) -> Result<ServePlan, Failure> {
        match &self.0 {
            Some(file) => (file.read)(),
            None => Err(anyhow::anyhow!(
                "the daemon was started with flags, and has no configuration file to read again; \
                 `kickcache add`, `remove` and `mode` change the served volumes"
            )
            .into()),
        }
    }
}
