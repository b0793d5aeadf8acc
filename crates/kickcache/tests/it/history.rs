//! Decides whether reads and writes of cells could have happened one after another (linearizability).
//!
//! Versions are unique per cell, so the zone test of Gibbons and Korach is exact: for each version let f be
//! the earliest end and s the latest start of its write and its reads. The version was surely current from f
//! to s if f < s (a forward zone); two forward zones must not overlap, and the zone [s, f] of another version
//! must not lie within one.

use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// Times are from one clock, in nanoseconds, above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) cell: u64,
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) start: u64,
    /// `u64::MAX` for a write that was never acknowledged.
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    version: u64,
    written: Option<u64>,
    read_end: u64,
    first_end: u64,
    last_start: u64,
}

impl Zone {
    fn new(version: u64) -> Zone {
        let written = (version == 0).then_some(0);
        let first_end = if version == 0 { 0 } else { u64::MAX };
        Zone { version, written, read_end: u64::MAX, first_end, last_start: 0 }
    }

    fn add(&mut self, event: &Event) {
        self.first_end = self.first_end.min(event.end);
        self.last_start = self.last_start.max(event.start);
        match event.kind {
            Kind::Read => self.read_end = self.read_end.min(event.end),
            Kind::Write => self.written = Some(event.start),
        }
    }

    fn is_forward(&self) -> bool {
        self.first_end < self.last_start
    }
}

/// Cells start as version 0.
pub(crate) fn check(events: &[Event]) -> Result<(), String> {
    let mut cells: BTreeMap<u64, BTreeMap<u64, Zone>> = BTreeMap::new();
    for event in events {
        let zones = cells.entry(event.cell).or_default();
        zones.entry(event.version).or_insert_with(|| Zone::new(event.version)).add(event);
    }
    cells.iter().try_for_each(|(cell, zones)| {
        let zones: Vec<Zone> = zones.values().copied().collect();
        check_cell(&zones).map_err(|what| format!("cell {cell}: {what}"))
    })
}

fn check_cell(zones: &[Zone]) -> Result<(), String> {
    for zone in zones {
        let version = zone.version;
        let written = zone.written.ok_or_else(|| format!("version {version} was read but never written"))?;
        if zone.read_end < written {
            return Err(format!("version {version} was read before it was written"));
        }
    }
    let mut forward: Vec<&Zone> = zones.iter().filter(|zone| zone.is_forward()).collect();
    forward.sort_by_key(|zone| zone.first_end);
    if let Some(pair) = forward.windows(2).find(|pair| pair[1].first_end < pair[0].last_start) {
        return Err(stale(pair[0], pair[1]));
    }
    for zone in zones.iter().filter(|zone| !zone.is_forward()) {
        let after = forward.partition_point(|other| other.first_end < zone.last_start);
        let inside = |other: &&&Zone| zone.first_end < other.last_start;
        if let Some(other) = after.checked_sub(1).map(|at| &forward[at]).filter(inside) {
            return Err(stale(other, zone));
        }
    }
    Ok(())
}

fn stale(first: &Zone, second: &Zone) -> String {
    let (a, b) = (first.version, second.version);
    format!(
        "versions {a} and {b} were current in turns: a read gave data older than an earlier answer\n{first:?}\n{second:?}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, version: u64, start: u64, end: u64) -> Event {
        Event { cell: 0, version, kind, start, end }
    }

    #[test]
    fn reads_of_the_newest_version_pass() {
        let events = [
            event(Kind::Read, 0, 1, 2),
            event(Kind::Write, 1, 3, 4),
            event(Kind::Read, 1, 5, 6),
            event(Kind::Write, 2, 7, 8),
        ];
        assert_eq!(check(&events), Ok(()));
    }

    #[test]
    fn a_read_concurrent_with_a_write_may_give_either_version() {
        for version in [0, 1] {
            let events = [event(Kind::Write, 1, 3, 9), event(Kind::Read, version, 5, 6)];
            assert_eq!(check(&events), Ok(()));
        }
    }

    #[test]
    fn a_stale_read_is_noticed() {
        let events = [event(Kind::Write, 1, 1, 2), event(Kind::Write, 2, 3, 4), event(Kind::Read, 1, 5, 6)];
        assert!(check(&events).is_err());
        let events = [event(Kind::Write, 1, 1, 2), event(Kind::Read, 0, 5, 6)];
        assert!(check(&events).is_err());
    }

    #[test]
    fn reads_that_go_back_in_time_are_noticed() {
        let events = [
            event(Kind::Write, 1, 1, 2),
            event(Kind::Write, 2, 3, 20),
            event(Kind::Read, 2, 5, 6),
            event(Kind::Read, 1, 8, 9),
        ];
        assert!(check(&events).is_err());
    }

    #[test]
    fn reads_from_nowhere_and_from_the_future_are_noticed() {
        assert!(check(&[event(Kind::Read, 9, 5, 6)]).is_err());
        assert!(check(&[event(Kind::Read, 1, 1, 2), event(Kind::Write, 1, 3, 4)]).is_err());
    }

    #[test]
    fn an_unacknowledged_write_may_show_or_not() {
        let lost = event(Kind::Write, 1, 3, u64::MAX);
        assert_eq!(check(&[lost, event(Kind::Read, 0, 5, 6)]), Ok(()));
        assert_eq!(check(&[lost, event(Kind::Read, 1, 5, 6)]), Ok(()));
        assert!(check(&[lost, event(Kind::Read, 1, 5, 6), event(Kind::Read, 0, 7, 8)]).is_err());
    }
}
