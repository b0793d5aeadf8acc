//! The end of an engine: all batches land and the origins are flushed. In service, a last checkpoint repeats all
//! records, so that neither a damaged record nor a damaged checkpoint alone can mislead the next recovery.

use alloc::vec::Vec;

use crate::engine::{Engine, Phase};
use crate::format::durable_blocks::DurableBlocks;
use crate::inflight::jobs::Ending;
use crate::order::DurableWaiter;
use crate::path::{checkpoint, flush, land, redo};
use crate::task::Task;
use crate::time::Instant;
use crate::units::VolumeId;

impl Engine {
    /// Begins to end the engine; see [`crate::engine::Phase::Stopped`].
    pub fn stop(&mut self, now: Instant) {
        self.state.now = now;
        self.is_stirred = true;
        if self.ending == Ending::No {
            self.ending = Ending::Draining;
            self.state.is_ending = true;
            redo::cut::stop(&mut self.state);
            self.state.begin_delayed();
        }
    }

    /// Once the engine has stopped, the journal blocks that [`Superblock::journal`] is to declare durable. `None` if no
    /// blocks are to be recorded.
    ///
    /// [`Superblock::journal`]: crate::format::superblock::Superblock::journal
    pub fn stopped_journal(&self) -> Option<DurableBlocks> {
        let device = &self.state.device;
        if self.phase() != Phase::Stopped || device.is_out_of_service() {
            return None;
        }
        let (durable, end) = (device.order.durable_blocks(), device.journal.span().start);
        let last = end.checked_sub(1)?;
        (durable.end > last).then(|| DurableBlocks { first: durable.first.min(last), end })
    }

    /// Whether the end may advance without another event.
    pub(crate) fn is_ending(&self) -> bool {
        !matches!(self.ending, Ending::No | Ending::MakingDurable | Ending::Done)
    }

    pub(crate) fn advance_ending(&mut self) {
        if !self.is_ending() {
            return;
        }
        self.state.write_all_batches();
        if !self.is_quiet() {
            return;
        }
        let flushes = self.ending == Ending::Draining && self.flush_origins();
        self.ending = match self.ending {
            Ending::Draining if flushes => Ending::FlushingOrigins,
            Ending::Draining | Ending::FlushingOrigins if !self.state.device.is_out_of_service() => {
                land::end_segments(&mut self.state);
                self.state.agenda.push_back(Task::Barrier(DurableWaiter::Nobody));
                Ending::WritingSummaries
            }
            Ending::WritingSummaries if !self.state.device.is_out_of_service() => {
                checkpoint::begin_last(&mut self.state);
                Ending::Checkpointing
            }
            Ending::No
            | Ending::Draining
            | Ending::FlushingOrigins
            | Ending::WritingSummaries
            | Ending::Checkpointing
            | Ending::MakingDurable
            | Ending::Done => {
                self.state.agenda.push_back(Task::Barrier(DurableWaiter::Stop));
                Ending::MakingDurable
            }
        };
    }

    /// Whether no request, submission, origin access, checkpoint or task is in progress.
    fn is_quiet(&self) -> bool {
        let state = &self.state;
        let no_origin_work = state.volumes.ids().all(|volume| state.volumes.get(volume).queue.is_empty());
        let nothing_to_do = state.submissions.is_polled_empty()
            && state.agenda.is_empty()
            && state.device.checkpoint.is_none();
        state.requests.is_empty() && state.submissions.is_empty() && no_origin_work && nothing_to_do
    }

    /// Requests flushes of origins that may have unflushed data; returns whether there are any.
    fn flush_origins(&mut self) -> bool {
        let state = &mut self.state;
        let unsettled: Vec<VolumeId> =
            state.volumes.ids().filter(|volume| state.volumes.get(*volume).flush.is_unsettled()).collect();
        for volume in &unsettled {
            let found = state.volumes.get_mut(*volume);
            // The stop tries a last flush, even if the origin refused one a moment ago.
            found.flush_backoff_until = state.now;
            found.flush.want();
        }
        flush::submit_due(state);
        !unsettled.is_empty()
    }
}
