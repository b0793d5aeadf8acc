//! A limit for repeated log lines.
//!
//! The caller defines the kinds: a few for each volume or device, never a value that a stranger chooses.

use std::collections::BTreeMap;
use std::fmt;

use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_units::show_count;

/// The interval of a limit.
pub(crate) const SPAN: Duration = Duration::from_millis(60_000);
pub(crate) const LINES_MAX: u32 = 5;

/// Decides for each line whether it may be written, and counts suppressed lines.
pub(crate) struct RateLimit<K> {
    lines_max: u32,
    span: Duration,
    kinds: BTreeMap<K, Kind>,
    /// The end of the first interval with suppressed lines; `None` if no line is suppressed.
    next: Option<Instant>,
}

/// An interval of a kind, from its first line on.
struct Kind {
    began: Instant,
    said: u32,
    held: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SuppressedLines {
    pub(crate) count: u64,
    pub(crate) span: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SuppressedKind<K> {
    pub(crate) kind: K,
    pub(crate) held: SuppressedLines,
}

impl<K: Ord + Clone> RateLimit<K> {
    pub(crate) fn new(lines_max: u32, span: Duration) -> RateLimit<K> {
        RateLimit { lines_max, span, kinds: BTreeMap::new(), next: None }
    }

    /// Whether a line of this kind may be written; a suppressed line is counted.
    pub(crate) fn allows(&mut self, now: Instant, kind: &K) -> bool {
        let fresh = Kind { began: now, said: 0, held: 0 };
        let entry = match self.kinds.get_mut(kind) {
            Some(entry) => entry,
            None => self.kinds.entry(kind.clone()).or_insert(fresh),
        };
        // Suppressed lines are reported before a new interval begins.
        if entry.held == 0 && entry.began.plus(self.span) <= now {
            *entry = Kind { began: now, said: 0, held: 0 };
        }
        if entry.said < self.lines_max {
            entry.said += 1;
            return true;
        }
        entry.held += 1;
        self.next = earlier(self.next, Some(entry.began.plus(self.span)));
        false
    }

    /// If the interval of a kind with suppressed lines has ended, returns the kind and the number of these
    /// lines.
    pub(crate) fn poll_held(&mut self, now: Instant) -> Option<SuppressedKind<K>> {
        self.next.filter(|next| *next <= now)?;
        let is_due = |entry: &Kind| entry.held > 0 && entry.began.plus(self.span) <= now;
        let (kind, _) = self.kinds.iter().find(|(_, entry)| is_due(entry))?;
        let kind = kind.clone();
        let entry = self.kinds.remove(&kind)?;
        self.next = self.first_due();
        Some(SuppressedKind { held: entry.told(now), kind })
    }

    /// The earliest time at which [`RateLimit::poll_held`] returns a kind; `None` if no line is suppressed.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Returns all suppressed lines, due or not.
    pub(crate) fn end(&mut self, now: Instant) -> impl Iterator<Item = SuppressedKind<K>> + use<K> {
        self.next = None;
        let kinds = std::mem::take(&mut self.kinds).into_iter();
        kinds
            .filter(|(_, entry)| entry.held > 0)
            .map(move |(kind, entry)| SuppressedKind { held: entry.told(now), kind })
    }

    /// Removes and returns the suppressed lines of the selected kinds.
    pub(crate) fn end_of(&mut self, now: Instant, is_meant: impl Fn(&K) -> bool) -> Vec<SuppressedKind<K>> {
        let kinds = std::mem::take(&mut self.kinds).into_iter();
        let (ended, kept): (BTreeMap<K, Kind>, BTreeMap<K, Kind>) =
            kinds.partition(|(kind, _)| is_meant(kind));
        self.kinds = kept;
        self.next = self.first_due();
        let held = ended.into_iter().filter(|(_, entry)| entry.held > 0);
        held.map(|(kind, entry)| SuppressedKind { held: entry.told(now), kind }).collect()
    }

    fn first_due(&self) -> Option<Instant> {
        let held = self.kinds.values().filter(|entry| entry.held > 0);
        held.map(|entry| entry.began.plus(self.span)).min()
    }
}

impl Kind {
    fn told(&self, now: Instant) -> SuppressedLines {
        SuppressedLines { count: self.held, span: now.since(self.began) }
    }
}

impl fmt::Display for SuppressedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.span.as_nanos().div_ceil(1_000_000_000);
        write!(f, "and {} more in {seconds} s", show_count(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn limit() -> RateLimit<&'static str> {
        RateLimit::new(5, SPAN)
    }

    fn said(limit: &mut RateLimit<&'static str>, now: Instant, kind: &'static str, lines: u32) -> usize {
        (0..lines).filter(|_| limit.allows(now, &kind)).count()
    }

    #[test]
    fn suppressed_lines_of_some_kinds_can_be_reported_early() {
        let mut limit = limit();
        for kind in ["a", "b"] {
            while limit.allows(at(1), &kind) {}
        }
        let ended = limit.end_of(at(3), |kind| *kind == "a");
        assert_eq!(ended.iter().map(|held| (held.kind, held.held.count)).collect::<Vec<_>>(), [("a", 1)]);
        assert!(limit.end_of(at(3), |kind| *kind == "a").is_empty());
        assert_eq!(limit.end(at(3)).map(|held| held.kind).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_few_lines_are_written_and_the_rest_is_counted() {
        let mut limit = limit();
        assert_eq!(said(&mut limit, at(0), "x", 1209), 5);
        assert_eq!(limit.poll_timeout(), Some(at(60)));
        assert_eq!(limit.poll_held(at(59)), None);
        let SuppressedKind { kind, held } = limit.poll_held(at(60)).unwrap();
        assert_eq!((kind, held.to_string().as_str()), ("x", "and 1,204 more in 60 s"));
        assert_eq!((limit.poll_held(at(60)), limit.poll_timeout()), (None, None));
    }

    #[test]
    fn kinds_do_not_hold_each_other_back() {
        let mut limit = limit();
        assert_eq!(said(&mut limit, at(0), "x", 9), 5);
        assert_eq!(said(&mut limit, at(0), "y", 3), 3);
        assert_eq!(said(&mut limit, at(1), "y", 3), 2);
    }

    #[test]
    fn a_report_begins_a_new_interval() {
        let mut limit = limit();
        assert_eq!(said(&mut limit, at(0), "x", 6), 5);
        assert_eq!(said(&mut limit, at(61), "x", 6), 0, "the first interval was not reported yet");
        assert_eq!(
            limit.poll_held(at(62)).unwrap().held,
            SuppressedLines { count: 7, span: Duration::from_millis(62_000) }
        );
        assert_eq!(said(&mut limit, at(62), "x", 6), 5);
        assert_eq!(limit.poll_timeout(), Some(at(122)));
    }

    #[test]
    fn an_interval_without_suppression_is_not_reported() {
        let mut limit = limit();
        assert_eq!(said(&mut limit, at(0), "x", 5), 5);
        assert_eq!((limit.poll_held(at(60)), limit.poll_timeout()), (None, None));
        assert_eq!(said(&mut limit, at(60), "x", 5), 5);
    }

    #[test]
    fn all_suppressed_lines_are_reported_at_the_end() {
        let mut limit = limit();
        said(&mut limit, at(0), "x", 6);
        said(&mut limit, at(0), "y", 5);
        let told: Vec<_> = limit.end(at(10)).collect();
        let held = SuppressedLines { count: 1, span: Duration::from_millis(10_000) };
        assert_eq!(told, [SuppressedKind { kind: "x", held }]);
    }
}
