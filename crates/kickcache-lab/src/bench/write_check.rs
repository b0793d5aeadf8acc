//! The conditions that refuse a target of a job that writes: it is in use, or holds data that may not be
//! lost.

use std::sync::Arc;

use anyhow::bail;
use kickcache_command::interrupt::Interrupt;

use crate::bench::contents;
use crate::bench::in_use;
use crate::bench::job::{Access, JobSource};
use crate::bench::options::{Data, Options};
use crate::bench::place::Place;

#[derive(Clone, Debug)]
pub(super) struct WriteCheck {
    access: Access,
    data: Data,
    interrupt: Arc<Interrupt>,
}

impl WriteCheck {
    pub(super) fn new(job: &JobSource, options: &Options, interrupt: &Arc<Interrupt>) -> WriteCheck {
        WriteCheck { access: job.access(), data: options.data, interrupt: Arc::clone(interrupt) }
    }

    /// Refuses a place that the job must not write to; `text` is its name in messages.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn check(&self, place: &Place, text: &str) -> anyhow::Result<()> {
        self.check_unused(place)?;
        if !self.looks_at_data() {
            return Ok(());
        }
        let looked_at = place.clone();
        match self.interrupt.wait_for(move || contents::look(&looked_at))? {
            None => Ok(()),
            Some(what) => bail!(
                "{text} holds {what}, and the job writes; name another target, or use --destroy-data, which loses this data"
            ),
        }
    }

    /// Refuses a place that is in use, if the job writes.
    ///
    /// # Errors
    /// As [`in_use::check_unused`].
    pub(super) fn check_unused(&self, place: &Place) -> anyhow::Result<()> {
        match self.access {
            Access::Reads => Ok(()),
            Access::Writes => in_use::check_unused(place),
        }
    }

    /// Whether the check reads disks and exports.
    pub(super) fn looks_at_data(&self) -> bool {
        self.access == Access::Writes && self.data == Data::Keep
    }
}
