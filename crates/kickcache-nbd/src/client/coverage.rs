//! The bytes of a read that arrived in chunks of its reply.

use std::collections::BTreeMap;

/// Byte ranges that do not overlap: the end of each by its start. Adjacent ranges are merged.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    ends: BTreeMap<usize, usize>,
}

impl Coverage {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether every byte of a read of this length has arrived.
    pub(super) fn is_whole(&self, length: usize) -> bool {
        match self.ends.first_key_value() {
            Some((&start, &end)) => (start, end) == (0, length),
            None => length == 0,
        }
    }

    /// Adds a range; returns `false`, and adds no byte, if a byte of the range had arrived before.
    #[must_use]
    pub(super) fn add(&mut self, mut start: usize, mut end: usize) -> bool {
        if start == end {
            return true;
        }
        let before = self.ends.range(..=start).next_back().map(|(&start, &end)| (start, end));
        let behind = self.ends.range(start..).next().map(|(&start, &end)| (start, end));
        if before.is_some_and(|before| before.1 > start) || behind.is_some_and(|behind| behind.0 < end) {
            return false;
        }
        if let Some(before) = before.filter(|before| before.1 == start) {
            start = before.0;
        }
        if let Some(behind) = behind.filter(|behind| behind.0 == end) {
            end = behind.1;
            self.ends.remove(&behind.0);
        }
        self.ends.insert(start, end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_any_order_make_a_whole() {
        let mut coverage = Coverage::default();
        assert!(coverage.is_whole(0) && coverage.is_empty());
        for (start, end) in [(8, 12), (0, 4), (6, 6), (12, 16), (4, 8)] {
            assert!(!coverage.is_whole(16));
            assert!(coverage.add(start, end));
        }
        assert!(coverage.is_whole(16) && !coverage.is_whole(15) && !coverage.is_empty());
    }

    #[test]
    fn a_read_with_a_gap_is_not_whole() {
        for ranges in [&[(8, 16)][..], &[(0, 8)], &[(0, 8), (12, 16)], &[(4, 16), (1, 3)], &[(0, 8), (8, 12)]]
        {
            let mut coverage = Coverage::default();
            assert!(ranges.iter().all(|(start, end)| coverage.add(*start, *end)));
            assert!(!coverage.is_whole(16), "{ranges:?}");
        }
        assert!(!Coverage::default().is_whole(16));
    }

    #[test]
    fn no_byte_comes_twice() {
        for (start, end) in [(0, 5), (4, 5), (5, 6), (7, 9), (0, 16), (4, 8)] {
            let mut coverage = Coverage::default();
            assert!(coverage.add(4, 8));
            assert!(!coverage.add(start, end), "{start}..{end}");
        }
    }
}
