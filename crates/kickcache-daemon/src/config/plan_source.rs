//! The source of a daemon's plan, which a reload reads again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error_sentence::error_sentence;
use crate::plan::ServePlan;

type Read = dyn Fn() -> anyhow::Result<ServePlan> + Send + Sync;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanSourceError {
    #[error(
        "the daemon was started with flags, and has no configuration file to read again; \
         `kickcache add`, `remove` and `mode` change the served volumes"
    )]
    Flags,
    /// The file cannot be read, or is wrong, in a sentence.
    #[error("{0}")]
    File(String),
}

/// The configuration file of a daemon, if it was started with one.
#[derive(Clone)]
pub struct PlanSource(Option<SourceFile>);

#[derive(Clone)]
struct SourceFile {
    path: PathBuf,
    read: Arc<Read>,
}

impl PlanSource {
    pub const FLAGS: PlanSource = PlanSource(None);

    pub fn file(
        path: PathBuf,
        read: impl Fn() -> anyhow::Result<ServePlan> + Send + Sync + 'static,
    ) -> PlanSource {
        PlanSource(Some(SourceFile { path, read: Arc::new(read) }))
    }

    /// The absolute path of the file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|file| file.path.as_path())
    }

    pub(crate) fn is_file(&self) -> bool {
        self.0.is_some()
    }

    /// The plan of the file as it is now.
    ///
    /// # Errors
    /// There is no file, it cannot be read, or it is wrong.
    pub(crate) fn read(&self) -> Result<ServePlan, PlanSourceError> {
        let file = self.0.as_ref().ok_or(PlanSourceError::Flags)?;
        (file.read)().map_err(|error| PlanSourceError::File(error_sentence(&*error)))
    }
}
