//! The data of the live page, kept from sample to sample.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::metrics::live::busy::BusyClock;
use crate::metrics::live::document::{Curves, DocumentParts, document};
use crate::metrics::live::events::LiveEvents;
use crate::metrics::live::history::{COARSE_SPAN, FINE_SPAN, Tracks};
use crate::metrics::live::totals::Totals;
use crate::metrics::scrape::Scrape;

pub(in crate::metrics) struct LiveView {
    due: Instant,
    before: Option<Totals>,
    /// The start of the present coarse row; `None` before the first sample.
    coarse_before: Option<Totals>,
    tracks: Tracks,
    busy: BusyClock,
    pub(super) happenings: LiveEvents,
    last: Option<Scrape>,
}

impl LiveView {
    pub(in crate::metrics) fn new(now: Instant) -> LiveView {
        LiveView {
            due: now,
            before: None,
            coarse_before: None,
            tracks: Tracks::default(),
            busy: BusyClock::default(),
            happenings: LiveEvents::default(),
            last: None,
        }
    }

    pub(in crate::metrics) fn due(&self) -> Instant {
        self.due
    }

    /// Takes a sample; without a report, only the time of the next sample changes.
    pub(in crate::metrics) fn take(&mut self, now: Instant, scrape: Option<Scrape>) {
        self.due = (self.due + FINE_SPAN).max(now + FINE_SPAN / 2);
        let Some(scrape) = scrape else { return };
        let at = seconds_since_1970();
        self.happenings.look(at, self.last.as_ref().map(|last| &last.report), &scrape.report);
        let totals = Totals::of(now, &scrape.report, &mut self.busy);
        if let Some(before) = &self.before {
            self.tracks.add_fine(at, totals.rows_since(before));
        }
        match &self.coarse_before {
            Some(before) if now.duration_since(before.at) < COARSE_SPAN => {}
            Some(before) => {
                self.tracks.add_coarse(at, totals.rows_since(before));
                self.coarse_before = Some(totals.clone());
            }
            None => self.coarse_before = Some(totals.clone()),
        }
        self.before = Some(totals);
        self.last = Some(scrape);
    }

    pub(in crate::metrics) fn document(&self, since: u64, curves: Curves) -> String {
        let report = self.last.as_ref().map(|last| &last.report);
        document(&DocumentParts { report, tracks: &self.tracks, happenings: &self.happenings }, since, curves)
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
