//! The dispatcher: `handle_*` takes events in, `poll_*` returns effects.
//!
//! Over 500 lines because each event, each task and each completion has its line here.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::config::{EngineSettings, FILL_WINDOW_MAX, FILL_WINDOW_MIN, Mode, VolumeSettings};
use crate::device::{Completion, Device, Submission};
use crate::error::Error;
use crate::format::superblock::Superblock;
use crate::ids::RequestSlot;
use crate::inflight::jobs::Ending;
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::{Cursor, Stage};
use crate::inflight::writing::Writing;
use crate::order::DurableWaiter;
use crate::path::{
    checkpoint, discard, fill, flush, grow, land, mark, merge, read, reclaim, recover, redo, write, writeback,
};
use crate::policy::drain_end::DrainEnd;
use crate::policy::offload::Offload;
use crate::request::{Errno, Operation, ReadFrom, Reply, Request};
use crate::state::State;
use crate::stats::WearHistory;
use crate::task::Task;
use crate::time::{Duration, Instant, earlier};
use crate::units::{BLOCK_SIZE, VolumeId};
use crate::volume::Volume;

/// The phase of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Reads its log back; takes no requests.
    Recovering,
    /// Serves requests.
    Running,
    /// Completes the requests in flight, and makes the data durable.
    Stopping,
    /// No operation is in flight.
    Stopped,
    /// Recovery failed.
    Failed(Error),
}

/// A cache device with its volumes.
///
/// Drive it in a loop: report events ([`Engine::handle_request`], [`Engine::handle_completion`],
/// [`Engine::handle_timeout`]); then drain [`Engine::poll_submission`], then [`Engine::poll_reply`]; then sleep until
/// [`Engine::poll_timeout`] or the next event.
#[derive(Debug)]
pub struct Engine {
    pub(crate) state: State,
    pub(crate) ending: Ending,
    /// Reads that arrived and have not begun.
    arrived: Vec<RequestSlot>,
    /// The next poll looks for new submissions.
    pub(crate) is_stirred: bool,
}

impl Engine {
    /// Opens a cache device with a superblock that the caller has read. Volumes that are not in `volumes` are not
    /// served.
    ///
    /// # Errors
    /// [`Error::Volume`] for impossible settings, or a volume that the superblock lacks.
    pub fn open(
        now: Instant,
        superblock: &Superblock,
        settings: EngineSettings,
        volumes: &[VolumeSettings],
    ) -> Result<Engine, Error> {
        let mut state = State::new(now, superblock, settings);
        for wanted in volumes {
            let size = check_settings(superblock, wanted)?;
            state.volumes.add(Volume::new(*wanted, size, Offload::new(settings.origin_offload), now));
        }
        recover::begin(&mut state, superblock.journal);
        Ok(Engine { state, ending: Ending::No, arrived: Vec::new(), is_stirred: true })
    }

    /// The phase of the engine.
    pub fn phase(&self) -> Phase {
        match (&self.state.recovery, self.ending) {
            (Some(recovery), _) => match &recovery.failed {
                Some(error) => Phase::Failed(error.clone()),
                None => Phase::Recovering,
            },
            (None, Ending::No) => Phase::Running,
            (None, Ending::Done) if self.state.submissions.is_empty() => Phase::Stopped,
            (None, _) => Phase::Stopping,
        }
    }

    /// Handles a request of a client; [`Engine::poll_reply`] returns its reply.
    ///
    /// # Panics
    /// While the engine is recovering, or for a volume that it does not serve.
    pub fn handle_request(&mut self, now: Instant, request: Request<'_>) {
        assert!(self.state.recovery.is_none(), "requests wait until recovery is over");
        self.state.now = now;
        let volume = self.state.volumes.get_mut(request.volume);
        volume.last_request = now;
        count_request(volume, &request);
        let is_inside =
            request.extent.start.checked_add(request.extent.length).is_some_and(|end| end <= volume.size);
        let has_extent = request.operation != Operation::Flush;
        if has_extent && (!is_inside || request.extent.length == 0) {
            let result = if is_inside { Ok(()) } else { Err(Errno::Invalid) };
            let reply = Reply { id: request.id, result, read_from: ReadFrom::Cache };
            self.state.requests.reply(reply);
            return;
        }
        self.is_stirred = true;
        let slot = self.state.requests.insert(&request);
        if request.operation == Operation::Read {
            self.arrived.push(slot);
            return;
        }
        self.begin_arrived();
        self.prepare(slot, &request);
        self.state.begin_in_time(slot, &request);
        self.run_agenda();
    }

    fn begin_arrived(&mut self) {
        if self.arrived.is_empty() {
            return;
        }
        let state = &mut self.state;
        if self.arrived.len() > 1 {
            read::warm(state, &self.arrived);
        }
        for slot in self.arrived.drain(..) {
            read::begin(state, slot);
        }
        self.run_agenda();
    }

    fn prepare(&mut self, slot: RequestSlot, request: &Request<'_>) {
        let stage = match request.operation {
            Operation::Read | Operation::Flush => Stage::Simple,
            Operation::Discard | Operation::Promote => {
                Stage::Cursor(Cursor { next: request.extent.start, ticket: None })
            }
            Operation::Write(_) | Operation::WriteZeroes { .. } => {
                let writing = Writing::new(request.operation, request.extent, request.checksums);
                writing.map_or(Stage::Simple, |writing| Stage::Write(writing.into()))
            }
        };
        self.state.requests.get_mut(slot).stage = stage;
    }

    /// Handles the end of a submission.
    ///
    /// # Panics
    /// For an unknown or a completed submission.
    pub fn handle_completion(&mut self, now: Instant, completion: Completion<'_>) {
        self.state.now = now;
        self.is_stirred = true;
        let purpose = self.state.submissions.end(now, completion.id);
        if purpose.reads_cached_blocks() {
            self.state.note_cache_read(completion.result.map(|_| ()));
        }
        self.dispatch(purpose, completion);
        self.run_agenda();
    }

    fn dispatch(&mut self, purpose: Purpose, completion: Completion<'_>) {
        let state = &mut self.state;
        let result = completion.result;
        let done = result.map(|_| ());
        match purpose {
            Purpose::Hit { request, run, begun } => {
                state.end_metered_hit(run.first.volume(), begun, run.count);
                read::on_hit(state, request, run, result);
            }
            Purpose::HitPart { request, block, extent } => {
                read::on_hit_part(state, request, block, extent, result);
            }
            Purpose::Shared { request, part } => read::on_shared(state, request, part, result),
            Purpose::Direct { request, part } => read::on_direct(state, request, part, result),
            Purpose::Fill { fill } => fill::on_filled(state, fill, result),
            Purpose::MergeCached { request, block } => merge::on_cached(state, request, block, result),
            Purpose::MergeOrigin { request, rest } => merge::on_origin(state, request, rest, done),
            Purpose::Merged { request, block, page } => merge::on_merged(state, request, block, page, result),
            Purpose::RequestWrite { request, stands_for } => {
                write::on_origin(state, request, stands_for, done);
            }
            Purpose::Discard { request } => discard::on_origin(state, request, done),
            Purpose::Batch { batch } => land::on_batch(state, batch, done),
            Purpose::Journal { block, sequences } => land::on_journal(state, block, &sequences, done),
            Purpose::Summary { segment } => land::on_summary(state, segment, done),
            Purpose::SegmentDiscard { segment } => reclaim::open::on_discarded(state, segment, done),
            Purpose::CacheFlush => land::on_cache_flush(state, done),
            Purpose::OriginFlush { volume } => flush::on_origin_flush(state, volume, done),
            Purpose::WritebackRead { parts } => writeback::on_read(state, &parts, result),
            Purpose::WritebackWrite { writeback } => writeback::on_written(state, writeback, done),
            Purpose::Reinsert { first, pages } => reclaim::on_read(state, first, &pages, result),
            Purpose::Probe => state.on_probed(done),
            Purpose::Checkpoint { block } => checkpoint::on_written(state, block, done),
            Purpose::Mark { copy } => mark::on_written(state, copy, done),
            Purpose::Note => mark::on_noted(state, done),
            Purpose::Recovery(step) => recover::on_step(state, step, result),
            Purpose::CutRead { chunk, blocks } => redo::journal::on_read(state, chunk, &blocks, result),
            Purpose::RedoChunk { chunk } => redo::journal::on_chunk(state, chunk, done),
            Purpose::RedoFlush => redo::journal::on_flushed(state, done),
            Purpose::RedoCommit => redo::journal::on_committed(state, done),
            Purpose::RedoTail(tail) => redo::release::on_tail(state, tail, done),
            Purpose::ApplyRead(part) => redo::apply::on_read(state, part, result),
            Purpose::ApplyWrite(write) => redo::apply::on_written(state, write, done),
            Purpose::ApplyFlush { volume } => redo::apply::on_flushed(state, volume, done),
        }
    }

    pub(crate) fn run_agenda(&mut self) {
        while let Some(task) = self.state.agenda.pop_front() {
            self.run(task);
        }
    }

    fn run(&mut self, task: Task) {
        let state = &mut self.state;
        match task {
            Task::Begin(slot) => self.begin(slot),
            Task::Merge(slot) => {
                if !merge::begin(state, slot) {
                    write::postpone(state, slot);
                }
            }
            Task::Append => write::go_on_appending(state),
            Task::ReadOrigin(slot, extent) => read::retry(state, slot, extent),
            Task::ReadAgain(slot, part) => read::again(state, slot, part),
            Task::MergeAgain(slot, key, page) => merge::again(state, slot, key, page),
            Task::NothingPending(slot) => self.on_nothing_pending(slot),
            Task::Searched(slot) => self.on_searched(slot),
            Task::Barrier(waiter) => {
                state.write_all_batches();
                state.wait_durable(waiter);
            }
            Task::Durable(waiter) => self.on_durable(waiter),
            Task::NotDurable(waiter) => self.on_not_durable(waiter),
            Task::Reclaim => reclaim::go_on(state),
            Task::Writeback(volume) => writeback::go_on(state, volume),
            Task::Checkpoint => checkpoint::begin(state),
            Task::Mark => mark::go_on(state),
            Task::Redo => redo::go_on(state),
            Task::PastCache(slot) => self.go_past_cache(slot, Ok(())),
            Task::NotPastCache(slot) => self.go_past_cache(slot, Err(Errno::Io)),
        }
    }

    fn begin(&mut self, slot: RequestSlot) {
        let state = &mut self.state;
        match state.requests.get(slot).operation {
            Operation::Read => read::begin(state, slot),
            Operation::Write(_) | Operation::WriteZeroes { .. } => write::begin(state, slot),
            Operation::Flush => flush::begin(state, slot),
            Operation::Discard => discard::go_on(state, slot),
            Operation::Promote => read::promote(state, slot),
        }
    }

    fn on_nothing_pending(&mut self, slot: RequestSlot) {
        let state = &mut self.state;
        match state.requests.get(slot).operation {
            Operation::Read | Operation::Flush => state.end_request(slot),
            Operation::Write(_) | Operation::WriteZeroes { .. } => write::on_nothing_pending(state, slot),
            Operation::Discard => discard::go_on(state, slot),
            Operation::Promote => read::promote(state, slot),
        }
    }

    fn on_searched(&mut self, slot: RequestSlot) {
        match self.state.requests.get(slot).operation {
            Operation::Discard => discard::on_searched(&mut self.state, slot),
            Operation::Read
            | Operation::Write(_)
            | Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Promote => write::on_searched(&mut self.state, slot),
        }
    }

    fn on_durable(&mut self, waiter: DurableWaiter) {
        let state = &mut self.state;
        match waiter {
            DurableWaiter::Flush(slot) => state.end_pending(slot),
            DurableWaiter::Around(slot) => self.go_past_cache(slot, Ok(())),
            DurableWaiter::Emptied { segments, failed_batches } => {
                reclaim::open::on_emptied(state, segments, failed_batches);
            }
            DurableWaiter::Opening(segments) => reclaim::open::on_opened(state, &segments),
            DurableWaiter::Checkpoint => checkpoint::on_durable(state),
            DurableWaiter::Writeback => {
                state.writebacks.wait_for_flush = false;
                state.agenda.extend(state.volumes.ids().map(Task::Writeback));
            }
            DurableWaiter::Drained(volume) => state.end_drain(volume),
            DurableWaiter::Forgotten(volume) => state.end_forgetting(volume),
            DurableWaiter::Cut(number) => redo::cut::on_durable(state, number),
            DurableWaiter::Nobody => {}
            DurableWaiter::Stop => self.ending = Ending::Done,
        }
    }

    fn go_past_cache(&mut self, slot: RequestSlot, result: Result<(), Errno>) {
        let state = &mut self.state;
        match state.requests.get(slot).operation {
            Operation::Discard => discard::go_past_cache(state, slot, result),
            Operation::Read
            | Operation::Write(_)
            | Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Promote => write::go_past_cache(state, slot, result),
        }
    }

    fn on_not_durable(&mut self, waiter: DurableWaiter) {
        let state = &mut self.state;
        match waiter {
            DurableWaiter::Flush(slot) => state.end_pending_with(slot, Err(Errno::Io)),
            // Without the out-of-service record, a restart could undo the write or discard (D-1).
            DurableWaiter::Around(slot) => state.wait_marked(slot),
            DurableWaiter::Emptied { segments, .. } | DurableWaiter::Opening(segments) => {
                reclaim::open::on_not_opened(state, &segments);
            }
            DurableWaiter::Checkpoint => checkpoint::on_not_durable(state),
            DurableWaiter::Writeback => writeback::on_not_durable(state),
            DurableWaiter::Drained(volume) => state.end_drain(volume),
            DurableWaiter::Forgotten(volume) => state.end_forgetting(volume),
            DurableWaiter::Cut(number) => redo::cut::on_not_durable(state, number),
            DurableWaiter::Nobody => {}
            DurableWaiter::Stop => self.ending = Ending::Done,
        }
    }

    /// The thread slept for this long without an event.
    pub fn handle_sleep(&mut self, slept: Duration) {
        let state = &mut self.state;
        state.device_time = state.device_time.plus(slept);
    }

    /// Lets time pass; call when [`Engine::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.state.now = now;
        self.is_stirred = true;
        let is_due = |at: Instant| at <= now;
        let searches = self.state.search_timeout().is_some_and(is_due);
        if searches {
            self.state.go_on_searching();
        }
        let is_for_others = !searches || self.poll_other_timeout().is_some_and(is_due);
        if self.state.recovery.is_none() && is_for_others {
            self.state.begin_delayed();
            self.state.agenda.extend(self.state.volumes.ids().map(Task::Writeback));
            self.state.agenda.extend([Task::Reclaim, Task::Mark]);
            self.state.probe_if_due();
            grow::go_on(&mut self.state);
            redo::go_on(&mut self.state);
            self.state.write_old_records();
        }
        self.run_agenda();
    }

    /// The next submission for the driver.
    pub fn poll_submission(&mut self) -> Option<Submission> {
        if let Some(submission) = self.state.submissions.poll() {
            return Some(submission);
        }
        self.begin_arrived();
        if self.state.submissions.is_polled_empty() && self.is_stirred {
            self.is_stirred = self.is_ending();
            self.pump();
        }
        self.state.submissions.poll()
    }

    /// The time since which a device with submissions in flight has completed none; `None` if none is in flight.
    pub fn silent_since(&self, device: Device) -> Option<Instant> {
        self.state.submissions.silent_since(device)
    }

    /// Turns gathered work into submissions, except during recovery.
    fn pump(&mut self) {
        if self.state.recovery.is_some() {
            return;
        }
        loop {
            let state = &mut self.state;
            state.write_due_batches();
            state.write_full_records();
            flush::submit_due(state);
            for volume in state.volumes.ids() {
                while let Some(next) = state.volumes.get_mut(volume).queue.take_startable() {
                    state.submit(next.purpose, next.operation);
                }
            }
            self.advance_ending();
            if self.state.agenda.is_empty() {
                return;
            }
            self.run_agenda();
        }
    }

    /// The next request that ended.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.state.requests.poll_reply()
    }

    /// When [`Engine::handle_timeout`] must be called, if no other event happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state.recovery.is_some() || self.ending == Ending::Done {
            return None;
        }
        earlier(self.state.search_timeout(), self.poll_other_timeout())
    }

    fn poll_other_timeout(&self) -> Option<Instant> {
        let state = &self.state;
        let mut first = earlier(state.device.log.poll_timeout(), reclaim::poll_timeout(state));
        first = earlier(first, earlier(mark::poll_timeout(state), state.probe_timeout()));
        first = earlier(first, earlier(state.delay_timeout(), redo::poll_timeout(state)));
        first = earlier(first, earlier(state.records_due, grow::is_due(state).then_some(state.now)));
        for volume in state.volumes.ids() {
            let flush = flush::due_at(state, volume);
            first = earlier(first, earlier(flush, writeback::poll_timeout(state, volume)));
        }
        first
    }

    /// Changes a volume's mode at once; requests in progress may continue as before. Leaving write-back also begins a
    /// drain.
    pub fn set_mode(&mut self, now: Instant, volume: VolumeId, mode: Mode) {
        self.state.now = now;
        self.is_stirred = true;
        let found = self.state.volumes.get_mut(volume);
        let leaves_write_back = found.settings.mode == Mode::WriteBack && mode != Mode::WriteBack;
        found.settings.mode = mode;
        if leaves_write_back {
            self.drain(now, volume);
        }
    }

    /// Changes the settings of a served volume: all except the kind of its origin.
    ///
    /// # Panics
    /// For settings that [`Engine::open`] refuses, and for a volume that is not served.
    pub fn change_settings(&mut self, now: Instant, wanted: &VolumeSettings) {
        assert_eq!(settings_fault(wanted), None, "the settings were checked");
        self.set_mode(now, wanted.volume, wanted.mode);
        let found = self.state.volumes.get_mut(wanted.volume);
        found.window.set_max(wanted.fill_window_max);
        if found.settings.writeback_cap != wanted.writeback_cap {
            found.pacing.forget_use();
        }
        found.settings = VolumeSettings { origin: found.settings.origin, ..*wanted };
        self.state.agenda.push_back(Task::Writeback(wanted.volume));
        self.run_agenda();
    }

    /// Changes the limit of [`EngineSettings::write_budget`].
    pub fn set_write_budget(&mut self, now: Instant, budget: Option<NonZeroU64>) {
        self.state.now = now;
        self.state.wear.set_budget(now, budget);
    }

    /// Adds an earlier history of writes to the cache device, which ended this long before the zero of the engine's
    /// clock.
    pub fn remember_wear(&mut self, now: Instant, history: &WearHistory, ago: Duration) {
        self.state.now = now;
        self.state.wear.remember(now, history, ago);
    }

    /// Until this time no further miss of a volume is promoted. A time in the past ends a pause.
    pub fn pause_caching(&mut self, volume: VolumeId, until: Instant) {
        self.state.volumes.get_mut(volume).paused_until = until;
    }

    /// Extends a volume to this many bytes.
    ///
    /// # Panics
    /// If the volume would shrink, or end within a block.
    pub fn grow_volume(&mut self, volume: VolumeId, size: u64) {
        let found = self.state.volumes.get_mut(volume);
        assert!(size >= found.size && size.is_multiple_of(BLOCK_SIZE), "a volume cannot shrink");
        found.size = size;
    }

    /// The server of a remote origin was replaced by one that may lack unflushed writes: these blocks become dirty
    /// again. Call this before any completion of the new server.
    pub fn origin_restarted(&mut self, now: Instant, volume: VolumeId) {
        self.state.now = now;
        self.is_stirred = true;
        flush::on_origin_restart(&mut self.state, volume);
        self.run_agenda();
    }

    /// Begins to write all dirty data of a volume back.
    pub fn drain(&mut self, now: Instant, volume: VolumeId) {
        self.state.now = now;
        self.is_stirred = true;
        let found = self.state.volumes.get_mut(volume);
        if !found.draining {
            (found.draining, found.drain_end) = (true, DrainEnd::default());
        }
        self.state.end_drain_when_durable(volume);
        self.state.agenda.extend([Task::Writeback(volume), Task::Redo]);
        self.run_agenda();
    }
}

fn count_request(volume: &mut Volume, request: &Request<'_>) {
    let counters = &mut volume.counters;
    match request.operation {
        Operation::Read => {
            counters.reads += 1;
            counters.read_bytes += request.extent.length;
        }
        Operation::Write(_) => {
            counters.writes += 1;
            counters.write_bytes += request.extent.length;
        }
        Operation::Flush => counters.flushes += 1,
        Operation::Discard | Operation::WriteZeroes { .. } => counters.discards += 1,
        Operation::Promote => {}
    }
}

/// Checks a volume's settings against the superblock; returns the origin's recorded size.
fn check_settings(superblock: &Superblock, settings: &VolumeSettings) -> Result<u64, Error> {
    let id = settings.volume;
    let Some(record) = superblock.volumes.iter().find(|volume| volume.id == id) else {
        let what = "the cache device has no volume of this number".to_string();
        return Err(Error::Volume { name: format!("number {}", id.get()), what });
    };
    match settings_fault(settings) {
        None => Ok(record.origin_size),
        Some(what) => Err(Error::Volume { name: record.name.clone(), what: what.to_string() }),
    }
}

fn settings_fault(settings: &VolumeSettings) -> Option<&'static str> {
    let window = settings.fill_window_max;
    if !window.is_power_of_two() || !(FILL_WINDOW_MIN..=FILL_WINDOW_MAX).contains(&window) {
        return Some("the largest fill window must be a power of two from 4 KiB to 1 MiB");
    }
    let marks = [settings.dirty_low, settings.dirty_high, settings.dirty_limit, 1024];
    (!marks.is_sorted()).then_some("the dirty marks must rise from low to high to limit, at most 1024")
}
