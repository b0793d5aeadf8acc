//! The ways to make the load, and its measurement.

pub(crate) mod built_in;
pub(crate) mod fio;
pub(crate) mod measure;

use std::path::Path;
use std::time::Duration;

use crate::demo::content::Content;
use crate::demo::workload::JobLoad;

pub(crate) struct Run<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) export: &'a str,
    pub(crate) content: Content,
    pub(crate) jobs: &'a [JobLoad],
    pub(crate) depth: usize,
    pub(crate) duration: Duration,
}

/// Called with the progress of a run; an error ends the run.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(Glance) -> anyhow::Result<()>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Glance {
    pub(crate) elapsed: Duration,
    /// Operations that ended so far, if that is known.
    pub(crate) operations: Option<u64>,
}
