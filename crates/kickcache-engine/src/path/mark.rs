//! Marks a cache device that was put out of service, so that no restart treats it as in service.
//!
//! Invariants:
//! * D-1: if a write, discard or write-zeroes bypasses a cache device out of service without a trace in its log, it is
//!   submitted to the origin only when the record is durable: in both service marks, or on the host.
//! * D-2: a volume is declared complete only after a flush of its origin that began, out of service, when none of its
//!   blocks was dirty any more.

use alloc::vec::Vec;

use crate::config::MARK_PATIENCE;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::mark::{MARK_OFFSETS, ServiceMark};
use crate::ids::RequestSlot;
use crate::inflight::origin_flush::Covered;
use crate::inflight::purpose::Purpose;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant, earlier};
use crate::units::{VolumeId, VolumeSet};

/// Time between two tries after a failed write of the record, while no record exists.
const RETRY: Duration = Duration::from_millis(2_000);
/// Time between two tries after a failed write of the record, while a record exists.
const RETRY_RECORDED: Duration = Duration::from_millis(30_000);

pub(crate) fn go_on(state: &mut State) {
    let Some(incomplete) = state.marking.incomplete else { return };
    expire(state);
    if !state.marking.is_known {
        write_marks(state, incomplete);
        ask_host(state, incomplete);
    }
    release(state);
}

/// Clears deadlines that have passed.
fn expire(state: &mut State) {
    let now = state.now;
    let marking = &mut state.marking;
    if marking.patience_until.is_some_and(|until| now >= until) {
        marking.patience_until = None;
    }
    if marking.retry_at.is_some_and(|at| now >= at) {
        marking.retry_at = None;
        marking.keepers().for_each(|keeper| keeper.has_failed = false);
    }
}

fn write_marks(state: &mut State, incomplete: VolumeSet) {
    for (copy, offset) in (0u8..).zip(MARK_OFFSETS) {
        let keeper = &mut state.marking.copies[usize::from(copy)];
        if !keeper.wants(incomplete) {
            continue;
        }
        keeper.in_flight = Some(incomplete);
        let mark = ServiceMark::OutOfService { incomplete };
        let operation = DeviceOperation::WriteMetadata {
            device: Device::Cache,
            offset,
            bytes: mark.encode(state.device.uuid).into_boxed_slice(),
            pieces: Vec::new(),
            durability: Durability::Durable,
        };
        state.submit(Purpose::Mark { copy }, operation);
    }
}

/// The host gets the record if a mark fails or the marks take too long; once it has the record, it is updated too.
fn ask_host(state: &mut State, incomplete: VolumeSet) {
    let marking = &state.marking;
    let marks_fail = marking.copies.iter().any(|copy| copy.has_failed);
    let takes_long = marking.patience_until.is_none() && !marking.is_recorded();
    let is_keeper = marking.host.keeps.is_some();
    if (marks_fail || takes_long || is_keeper) && marking.host.wants(incomplete) {
        state.marking.host.in_flight = Some(incomplete);
        state.submit(Purpose::Note, DeviceOperation::NoteOutOfService { incomplete });
    }
}

/// Continues the requests that wait for the record, or fails them if the record is impossible for now.
fn release(state: &mut State) {
    let marking = &mut state.marking;
    if marking.keepers().any(|keeper| keeper.has_failed) {
        let pause = if marking.is_recorded() { RETRY_RECORDED } else { RETRY };
        let retry_at = state.now.plus(pause);
        state.marking.retry_at.get_or_insert(retry_at);
    }
    let marking = &mut state.marking;
    let task = if marking.is_recorded() || mutant!(OutOfServiceUnmarked) {
        Task::PastCache
    } else if marking.is_hopeless() {
        Task::NotPastCache
    } else {
        return;
    };
    let waiting = core::mem::take(&mut marking.waiting);
    state.agenda.extend(waiting.into_iter().map(task));
}

pub(crate) fn on_written(state: &mut State, copy: u8, result: Result<(), DeviceError>) {
    state.device.counters.errors += u64::from(result.is_err());
    state.marking.copies[usize::from(copy)].end(result);
    go_on(state);
}

pub(crate) fn on_noted(state: &mut State, result: Result<(), DeviceError>) {
    state.marking.host.end(result);
    go_on(state);
}

pub(crate) fn poll_timeout(state: &State) -> Option<Instant> {
    state.marking.incomplete?;
    earlier(state.marking.patience_until, state.marking.retry_at)
}

impl State {
    /// The cache device was just put out of service: determines the volumes for the record.
    pub(crate) fn begin_marking(&mut self) {
        let all = VolumeSet::ALL.iter();
        let has_not_clean = |volume: &VolumeId| {
            let blocks = self.cache.volume(*volume);
            blocks.dirty > 0 || blocks.unflushed > 0 && !mutant!(UnflushedCalledComplete)
        };
        self.marking.incomplete = Some(all.filter(has_not_clean).collect());
        self.marking.patience_until = Some(self.now.plus(MARK_PATIENCE));
        self.agenda.push_back(Task::Mark);
    }

    /// Lets a request wait until a record exists that the device is out of service, or is impossible for now.
    pub(crate) fn wait_marked(&mut self, slot: RequestSlot) {
        self.marking.waiting.push(slot);
        self.agenda.push_back(Task::Mark);
    }

    /// No block of a volume is dirty. If the record declares the volume incomplete, a flush of its origin is requested.
    pub(crate) fn prove_complete(&mut self, volume: VolumeId) {
        let is_incomplete = self.marking.incomplete.is_some_and(|set| set.contains(volume));
        if is_incomplete && let Some(found) = self.volumes.find_mut(volume) {
            found.flush.on_write(self.now);
            found.flush.want();
        }
    }

    /// A flush of a volume's origin succeeded, and the volume has no dirty block. The origin is complete if no block
    /// was dirty when the flush began (D-2).
    pub(crate) fn review_complete(&mut self, volume: VolumeId, covered: Covered) {
        if !self.marking.incomplete.is_some_and(|set| set.contains(volume)) {
            return;
        }
        if covered == Covered::Everything || mutant!(CompleteTooEarly) {
            self.marking.incomplete.as_mut().into_iter().for_each(|set| set.remove(volume));
            self.agenda.push_back(Task::Mark);
            return;
        }
        self.prove_complete(volume);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::{Durability, Operation};
    use crate::scene::Scene;
    use crate::time::{Duration, Instant};
    use crate::units::VolumeId;

    fn is_incomplete(scene: &Scene) -> bool {
        scene.engine.status().volumes[0].is_incomplete
    }

    fn left_out_with_a_dirty_block() -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        scene.flush().0.unwrap();
        let volume = scene.engine.state.volumes.get_mut(VolumeId::new(0));
        volume.backoff_until = Instant::from_nanos(u64::MAX / 2);
        scene.engine.leave_out(scene.now);
        scene.run();
        assert!(is_incomplete(&scene));
        scene
    }

    fn let_flush(scene: &mut Scene) {
        scene.engine.state.volumes.get_mut(VolumeId::new(0)).backoff_until = scene.now;
    }

    #[test]
    fn a_volume_is_complete_after_a_flush_out_of_service() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 1));
        scene.engine.leave_out(scene.now);
        scene.run();
        assert!(is_incomplete(&scene), "the origin has not flushed the block");
        scene.end_held_first_and_hold("origin flush");
        assert!(is_incomplete(&scene), "that flush began in service");
        scene.end_held();
        assert!(!is_incomplete(&scene));
    }

    #[test]
    fn a_failed_flush_leaves_a_volume_incomplete() {
        let mut scene = left_out_with_a_dirty_block();
        let_flush(&mut scene);
        scene.fail_times(1, "origin flush", DeviceError::Io);
        scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
        assert_eq!((scene.take_reply(), scene.not_clean()), (Some(Ok(())), (0, 0)));
        assert!(is_incomplete(&scene));
        scene.pass(Duration::from_millis(5_000));
        assert!(!is_incomplete(&scene));
    }

    #[test]
    fn a_durable_write_past_the_cache_device_is_flushed_too() {
        let mut scene = left_out_with_a_dirty_block();
        scene.begin(Operation::Write(Durability::Durable), 0, 4096);
        assert_eq!((scene.take_reply(), scene.not_clean()), (Some(Ok(())), (0, 0)));
        let_flush(&mut scene);
        scene.pass(Duration::from_millis(5_000));
        assert!(!is_incomplete(&scene));
    }

    #[test]
    fn a_failed_cache_device_is_marked_before_writes_bypass_it() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail("cache log", DeviceError::Io);
        let (result, seen) = scene.write(8192, 4096);
        let place = |wanted: &str| seen.iter().position(|line| line == wanted).unwrap();
        assert_eq!(result, Ok(()));
        assert!(place("cache log 0, durable") < place("origin write 8192+4096"), "{seen:?}");
        assert!(place("note") < place("origin write 8192+4096"), "{seen:?}");
        assert_eq!(scene.write(8192, 4096).1, ["origin write 8192+4096"], "it is out of service");
    }

    #[test]
    fn volumes_that_are_not_served_are_recorded_as_incomplete() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        scene.flush().0.unwrap();
        let volume = VolumeId::new(0);
        scene.engine.state.volumes.remove(volume);
        scene.engine.state.begin_marking();
        assert!(scene.engine.state.marking.incomplete.unwrap().contains(volume));
    }

    #[test]
    fn only_a_new_flush_proves_that_a_volume_is_complete() {
        let mut scene = left_out_with_a_dirty_block();
        let flush = |scene: &Scene| scene.engine.state.volumes.get(VolumeId::new(0)).flush.is_unsettled();
        assert!(!flush(&scene), "no write of the origin since its flush");
        scene.engine.state.prove_complete(VolumeId::new(0));
        assert!(flush(&scene));
    }

    #[test]
    fn a_flush_before_the_last_bypassing_write_is_no_proof() {
        let mut scene = left_out_with_a_dirty_block();
        scene.hold("origin flush");
        scene.write(8192, 4096).0.unwrap();
        scene.begin(Operation::Flush, 0, 0);
        scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
        assert_eq!((scene.take_reply(), scene.not_clean()), (Some(Ok(())), (0, 0)));
        scene.end_held_first_and_hold("origin flush");
        assert!(is_incomplete(&scene), "a power cut at the origin may undo the write");
        scene.end_held();
        scene.pass(Duration::from_millis(5_000));
        assert!(!is_incomplete(&scene));
    }
}
