//! A ring of recorded accesses with one thread at each end; neither waits for the other.
//!
//! Invariants: `taken <= noted <= taken + SLOT_COUNT`; a slot is written only while `noted - taken < SLOT_COUNT`, and read only
//! below `noted`, so that no slot is written and read at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::recording::access::{RecordedAccess, RecordingEntry, WORDS};

pub(crate) const SLOT_COUNT: u64 = 1 << 17;

/// A counter with 64 bytes of its own, so that the two ends do not slow each other down.
#[repr(align(64))]
#[derive(Default)]
struct PaddedCounter(AtomicU64);

struct Ring {
    slots: Box<[[AtomicU64; WORDS]]>,
    /// Entries put in; an entry is an access or a gap.
    noted: PaddedCounter,
    /// Entries taken out.
    taken: PaddedCounter,
    lost: PaddedCounter,
    is_ended: AtomicBool,
}

/// The loop's end of a recording.
pub(crate) struct Recorder {
    ring: Arc<Ring>,
    noted: u64,
    /// Loaded from the ring only if it seems full.
    taken: u64,
    /// Accesses lost since the last access that was put in.
    gap: u64,
}

/// The end of a recording that takes the accesses; its drop ends the recording.
pub struct Recording {
    ring: Arc<Ring>,
    taken: u64,
    on_end: Option<Box<dyn FnOnce() + Send>>,
}

pub(crate) struct Ends {
    pub(crate) recorder: Recorder,
    pub(crate) recording: Recording,
}

pub(crate) fn ring() -> Ends {
    let slots = (0..SLOT_COUNT).map(|_| [const { AtomicU64::new(0) }; WORDS]).collect();
    let ring = Ring {
        slots,
        noted: PaddedCounter::default(),
        taken: PaddedCounter::default(),
        lost: PaddedCounter::default(),
        is_ended: AtomicBool::new(false),
    };
    let ring = Arc::new(ring);
    let recorder = Recorder { ring: Arc::clone(&ring), noted: 0, taken: 0, gap: 0 };
    Ends { recorder, recording: Recording { ring, taken: 0, on_end: None } }
}

impl Recorder {
    pub(crate) fn note(&mut self, access: RecordedAccess) {
        // After lost accesses, two entries are put in: the gap and the access.
        let needed = 1 + u64::from(self.gap > 0);
        if !self.has_room(needed) {
            self.gap += 1;
            self.ring.lost.0.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.gap > 0 {
            let gap = std::mem::take(&mut self.gap);
            self.put(RecordingEntry::Gap(gap));
        }
        self.put(RecordingEntry::Access(access));
        self.ring.noted.0.store(self.noted, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.ring) > 1
    }

    fn has_room(&mut self, needed: u64) -> bool {
        if self.noted - self.taken + needed > SLOT_COUNT {
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
        }
        self.noted - self.taken + needed <= SLOT_COUNT
    }

    fn put(&mut self, noted: RecordingEntry) {
        for (slot, word) in self.ring.slot(self.noted).iter().zip(noted.to_words()) {
            slot.store(word, Ordering::Relaxed);
        }
        self.noted += 1;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.ring.is_ended.store(true, Ordering::Release);
    }
}

impl Recording {
    /// Takes entries, at most `count_max`, and returns their number.
    pub(crate) fn take(&mut self, count_max: u64, mut each: impl FnMut([u64; WORDS])) -> u64 {
        let noted = self.ring.noted.0.load(Ordering::Acquire);
        let count = (noted - self.taken).min(count_max);
        for number in self.taken..self.taken + count {
            let slot = self.ring.slot(number);
            each(std::array::from_fn(|word| slot[word].load(Ordering::Relaxed)));
        }
        self.taken += count;
        self.ring.taken.0.store(self.taken, Ordering::Release);
        count
    }

    pub(crate) fn lost(&self) -> u64 {
        self.ring.lost.0.load(Ordering::Relaxed)
    }

    /// Whether no more accesses follow; those in the ring can still be taken.
    pub(crate) fn is_ended(&self) -> bool {
        self.ring.is_ended.load(Ordering::Acquire)
    }

    /// Sets a callback for the drop of this end.
    pub(crate) fn on_end(&mut self, call: impl FnOnce() + Send + 'static) {
        self.on_end = Some(Box::new(call));
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // This end's share of the ring is dropped before the call, since `is_wanted` counts the owners.
        self.ring = Arc::new(Ring {
            slots: Box::default(),
            noted: PaddedCounter::default(),
            taken: PaddedCounter::default(),
            lost: PaddedCounter::default(),
            is_ended: AtomicBool::new(true),
        });
        if let Some(call) = self.on_end.take() {
            call();
        }
    }
}

impl Ring {
    fn slot(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.slots[usize::try_from(number % SLOT_COUNT).expect("far below 2^32")]
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recording").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::request::Operation;
    use kickcache_engine::units::ByteExtent;

    use super::*;

    fn access(at: u64) -> RecordedAccess {
        RecordedAccess::of(at, Operation::Read, ByteExtent { start: at * 8, length: 8 }).unwrap()
    }

    fn taken(recording: &mut Recording, count_max: u64) -> Vec<RecordingEntry> {
        let mut all = Vec::new();
        recording.take(count_max, |words| all.push(RecordingEntry::of_words(words).unwrap()));
        all
    }

    #[test]
    fn a_full_ring_loses_records_and_marks_the_place() {
        let Ends { mut recorder, mut recording } = ring();
        (0..SLOT_COUNT + 3).for_each(|at| recorder.note(access(at)));
        assert_eq!(recording.lost(), 3);
        assert_eq!(taken(&mut recording, 1), [RecordingEntry::Access(access(0))]);
        recorder.note(access(1));
        assert_eq!(recording.lost(), 4);
        assert_eq!(taken(&mut recording, SLOT_COUNT).len() as u64, SLOT_COUNT - 1);
        recorder.note(access(9));
        assert_eq!(
            taken(&mut recording, SLOT_COUNT),
            [RecordingEntry::Gap(4), RecordingEntry::Access(access(9))]
        );
    }

    #[test]
    fn two_threads_pass_on_everything_in_order() {
        let Ends { mut recorder, mut recording } = ring();
        let count = 3 * SLOT_COUNT;
        let thread = std::thread::spawn(move || (0..count).for_each(|at| recorder.note(access(at))));
        let (mut next, mut lost, mut is_ended) = (0, 0, false);
        while !is_ended {
            is_ended = recording.is_ended();
            for noted in taken(&mut recording, SLOT_COUNT) {
                match noted {
                    RecordingEntry::Gap(gap) => (next, lost) = (next + gap, lost + gap),
                    RecordingEntry::Access(found) => {
                        assert_eq!(found, access(next));
                        next += 1;
                    }
                }
            }
        }
        thread.join().unwrap();
        assert_eq!(next + (recording.lost() - lost), count);
    }

    #[test]
    fn each_end_learns_of_the_end_of_the_other() {
        let Ends { recorder, recording } = ring();
        assert!(recorder.is_wanted() && !recording.is_ended());
        drop(recorder);
        assert!(recording.is_ended());
        let Ends { recorder, mut recording } = ring();
        let (tell, told) = std::sync::mpsc::channel();
        recording.on_end(move || tell.send(()).unwrap());
        drop(recording);
        told.recv().unwrap();
        assert!(!recorder.is_wanted());
    }
}
