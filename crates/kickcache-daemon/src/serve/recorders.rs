//! The recordings of a loop: each records the requests of one volume.

use kickcache_engine::request::Operation;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{ByteExtent, VolumeId};

use crate::recording::access::RecordedAccess;
use crate::recording::ring::Recorder;

/// The most running recordings of a loop.
pub(crate) const RECORDING_COUNT_MAX: usize = 4;

struct Entry {
    volume: VolumeId,
    began: Instant,
    recorder: Recorder,
}

#[derive(Default)]
pub(crate) struct Recorders(Vec<Entry>);

impl Recorders {
    /// Begins to record a volume; `false` if the limit of recordings is reached.
    pub(crate) fn add(&mut self, now: Instant, volume: VolumeId, recorder: Recorder) -> bool {
        self.sweep();
        let has_room = self.0.len() < RECORDING_COUNT_MAX;
        if has_room {
            self.0.push(Entry { volume, began: now, recorder });
        }
        has_room
    }

    /// Drops recordings with a closed other end.
    pub(crate) fn sweep(&mut self) {
        self.0.retain(|entry| entry.recorder.is_wanted());
    }

    pub(crate) fn end(&mut self, volume: VolumeId) {
        self.0.retain(|entry| entry.volume != volume);
    }

    pub(crate) fn count(&self, volume: VolumeId) -> usize {
        self.0.iter().filter(|entry| entry.volume == volume && entry.recorder.is_wanted()).count()
    }

    /// Records a request, except a promotion, in every recording of its volume.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant, volume: VolumeId, operation: Operation, extent: ByteExtent) {
        if !self.0.is_empty() {
            self.note_all(now, volume, operation, extent);
        }
    }

    #[cold]
    fn note_all(&mut self, now: Instant, volume: VolumeId, operation: Operation, extent: ByteExtent) {
        for entry in self.0.iter_mut().filter(|entry| entry.volume == volume) {
            let at = now.since(entry.began).as_nanos();
            if let Some(access) = RecordedAccess::of(at, operation, extent) {
                entry.recorder.note(access);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ring::{Ends, ring};

    const EXTENT: ByteExtent = ByteExtent { start: 0, length: 4096 };

    #[test]
    fn only_the_volume_that_is_recorded_is_noted() {
        let Ends { recorder, mut recording } = ring();
        let mut recorders = Recorders::default();
        assert!(recorders.add(Instant::from_nanos(50), VolumeId::new(1), recorder));
        assert_eq!([0, 1].map(|volume| recorders.count(VolumeId::new(volume))), [0, 1]);
        let mut note = |volume, operation| {
            recorders.note(Instant::from_nanos(70), VolumeId::new(volume), operation, EXTENT);
        };
        note(0, Operation::Read);
        note(1, Operation::Promote);
        note(1, Operation::Read);
        let mut times = Vec::new();
        recording.take(10, |[at, ..]| times.push(at));
        assert_eq!(times, [20]);
        drop(recording);
        assert_eq!(recorders.count(VolumeId::new(1)), 0);
    }

    #[test]
    fn recordings_are_few_and_make_room_when_they_end() {
        let mut recorders = Recorders::default();
        let mut ends: Vec<_> = (0..RECORDING_COUNT_MAX + 1)
            .filter_map(|_| {
                let Ends { recorder, recording } = ring();
                recorders.add(Instant::ZERO, VolumeId::new(0), recorder).then_some(recording)
            })
            .collect();
        assert_eq!(ends.len(), RECORDING_COUNT_MAX);
        ends.pop();
        assert!(recorders.add(Instant::ZERO, VolumeId::new(0), ring().recorder));
    }
}
