//! The durable part of a numbered series of writes: batches by sequence number, journal blocks by their number.
//!
//! Invariants:
//! * W-1: a number does not count as durable if its write or flush failed, nor does any higher number.

use alloc::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Watermark {
    /// The least number of the next write.
    next: u64,
    in_flight: BTreeSet<u64>,
    /// Writes below this number are covered by the flush that was submitted last.
    flushing: u64,
    /// Writes below this number had ended when a flush was submitted that succeeded.
    durable: u64,
    /// The lowest number that may not be durable, even after later flushes: its write or its flush failed.
    doubtful: Option<u64>,
}

impl Watermark {
    /// No write is submitted; the first number will be `next` or higher.
    pub(crate) fn new(next: u64) -> Watermark {
        Watermark { next, in_flight: BTreeSet::new(), flushing: next, durable: next, doubtful: None }
    }

    pub(crate) fn begin(&mut self, number: u64) {
        debug_assert!(number >= self.next, "W-1: {number} is submitted out of turn");
        self.next = number.saturating_add(1);
        self.in_flight.insert(number);
    }

    /// A write ended; numbers of other series have no effect.
    pub(crate) fn end(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    pub(crate) fn fail(&mut self, number: u64) {
        self.doubt(number);
        self.end(number);
    }

    fn doubt(&mut self, number: u64) {
        self.doubtful = Some(self.doubtful.map_or(number, |doubtful| doubtful.min(number)));
    }

    pub(crate) fn begin_flush(&mut self) {
        self.flushing = self.in_flight.first().copied().unwrap_or(self.next);
    }

    pub(crate) fn end_flush(&mut self) {
        self.durable = self.durable.max(self.flushing);
    }

    pub(crate) fn fail_flush(&mut self) {
        self.doubt(self.durable);
    }

    /// All writes below this number are durable.
    pub(crate) fn durable_end(&self) -> u64 {
        self.doubtful.map_or(self.durable, |doubtful| self.durable.min(doubtful))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(watermark: &mut Watermark) {
        watermark.begin_flush();
        watermark.end_flush();
    }

    #[test]
    fn a_flush_covers_completed_writes_up_to_a_gap() {
        let mut watermark = Watermark::new(10);
        for number in [10, 12, 15] {
            watermark.begin(number);
        }
        watermark.end(10);
        watermark.end(15);
        assert_eq!(watermark.durable_end(), 10, "no flush covers it");
        watermark.begin_flush();
        watermark.end(12);
        watermark.end_flush();
        assert_eq!(watermark.durable_end(), 12, "it ended after the flush was submitted");
        flush(&mut watermark);
        assert_eq!(watermark.durable_end(), 16);
    }

    #[test]
    fn writes_from_a_failed_one_on_are_not_durable() {
        let mut watermark = Watermark::new(0);
        (0..3).for_each(|number| watermark.begin(number));
        watermark.end(0);
        watermark.fail(1);
        watermark.end(2);
        flush(&mut watermark);
        assert_eq!(watermark.durable_end(), 1);
    }

    #[test]
    fn writes_under_a_failed_flush_are_not_durable() {
        let mut watermark = Watermark::new(5);
        watermark.begin(5);
        watermark.end(5);
        flush(&mut watermark);
        watermark.begin(6);
        watermark.end(6);
        watermark.begin_flush();
        watermark.fail_flush();
        flush(&mut watermark);
        assert_eq!(watermark.durable_end(), 6);
    }
}
