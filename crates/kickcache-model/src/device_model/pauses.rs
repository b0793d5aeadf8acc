//! Pauses of the whole device at random times, independent of its load.

use std::collections::VecDeque;

use kickcache_engine::time::Instant;
use kickcache_random::Random;

use crate::device_model::span;

const SEED: u64 = 0x7061_7573_6573;

#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    /// Mean time between two pauses, in microseconds; 0 if there are none.
    every: f64,
    longest: f64,
    random: Random,
    drawn: VecDeque<(Instant, Instant)>,
    until: Instant,
}

impl Pauses {
    pub(crate) fn new(every: f64, longest: f64, seed: u64) -> Pauses {
        let random = Random::new(seed ^ SEED);
        Pauses { every, longest, random, drawn: VecDeque::new(), until: Instant::ZERO }
    }

    /// When something is done that begins at `from` and would be done at `end` without pauses.
    pub(crate) fn delay(&mut self, from: Instant, end: Instant) -> Instant {
        if self.every <= 0.0 {
            return end;
        }
        let (mut end, mut next) = (end, 0);
        loop {
            if next == self.drawn.len() {
                self.draw();
            }
            let (begins, ends) = self.drawn[next];
            if begins >= end {
                return end;
            }
            end = end.plus(ends.since(begins.max(from)));
            next += 1;
        }
    }

    /// All later requests must begin at `now` or later.
    pub(crate) fn forget(&mut self, now: Instant) {
        while self.drawn.front().is_some_and(|pause| pause.1 <= now) {
            self.drawn.pop_front();
        }
    }

    fn draw(&mut self) {
        let begins = self.until.plus(span(self.random.exponential(self.every).max(0.001)));
        self.until = begins.plus(span(self.random.uniform(0.0, self.longest)));
        self.drawn.push_back((begins, self.until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operations_in_flight_wait_for_a_pause() {
        let mut pauses = Pauses::new(1_000.0, 100.0, 1);
        pauses.delay(Instant::ZERO, Instant::ZERO);
        let (begins, ends) = pauses.drawn[0];
        let length = ends.since(begins);
        let at = |micros: f64| begins.plus(span(micros));
        assert_eq!(pauses.delay(Instant::ZERO, begins), begins);
        assert_eq!(pauses.delay(Instant::ZERO, at(0.001)), at(0.001).plus(length));
        let middle = begins.plus(kickcache_engine::time::Duration::from_nanos(length.as_nanos() / 2));
        let later = middle.plus(span(1.0));
        assert_eq!(pauses.delay(middle, later), later.plus(ends.since(middle)));
        pauses.forget(ends);
        assert!(pauses.drawn.iter().all(|pause| pause.1 > ends));
    }

    #[test]
    fn a_device_without_pauses_waits_for_none() {
        let mut pauses = Pauses::new(0.0, 100.0, 1);
        let end = Instant::from_nanos(1 << 50);
        assert_eq!(pauses.delay(Instant::ZERO, end), end);
    }
}
