//! The log messages of outages of a remote origin.

use std::time::Duration;

use tracing::Level;

use super::server_fault::ServerFault;
use crate::driver::clock::{Clock, span};
use crate::plan::nbd_uri::NbdUri;
use crate::serve::complaints::{Complaint, Complaints};

const LOST: Complaint =
    Complaint::new("origin_lost", Level::WARN, "the server of an origin, that of {}, was lost");
const BACK: Complaint =
    Complaint::new("origin_back", Level::WARN, "the server of an origin, that of {}, was back");
const UNREACHABLE: Complaint = Complaint::new(
    "origin_unusable",
    Level::WARN,
    "the server of an origin, that of {}, could not be reached",
);
const UNUSABLE: Complaint =
    Complaint::new("origin_unusable", Level::WARN, "the server of an origin, that of {}, could not be used");
const OVER: Complaint = Complaint::new(
    "origin_away_too_long",
    Level::ERROR,
    "the server of an origin, that of {}, was away for too long",
);
const FATAL: Complaint = Complaint::new(
    "origin_requests_failed",
    Level::ERROR,
    "requests to the origin of {} failed, because each of these ended with the loss of its server",
);

pub(super) struct OutageLog {
    volume: String,
    uri: NbdUri,
    timeout: Duration,
    clock: Clock,
    complaints: Complaints,
    /// The last logged reason of a failed attempt in this outage.
    told: Option<ServerFault>,
}

impl OutageLog {
    pub(super) fn new(volume: String, uri: NbdUri, timeout: Duration) -> OutageLog {
        let (clock, complaints, told) = (Clock::start(), Complaints::default(), None);
        OutageLog { volume, uri, timeout, clock, complaints, told }
    }

    pub(super) fn lost(&mut self, why: &str) {
        let OutageLog { volume, uri, timeout, .. } = self;
        let line = format!(
            "the server of {uri}, the origin of {volume}, is lost ({why}): requests wait for it for up to {} s",
            timeout.as_secs()
        );
        self.say(LOST, &line);
    }

    pub(super) fn back(&mut self, lasted: Duration) {
        self.told = None;
        let OutageLog { volume, uri, .. } = self;
        let seconds = lasted.as_secs_f64();
        let line = format!("the server of {uri}, the origin of {volume}, is back after {seconds:.1} s");
        self.say(BACK, &line);
    }

    /// Logs that a server cannot be used, and is tried again, unless the last attempt failed for the same reason.
    pub(super) fn unusable(&mut self, server: ServerFault) {
        if self.told.as_ref() == Some(&server) {
            return;
        }
        let OutageLog { volume, uri, .. } = self;
        let why = server.why();
        let line = format!("{uri}, the origin of {volume}, cannot be used: {why}; it is tried again");
        // A server that does not answer must not suppress the report of a wrong answer.
        let complaint = match server {
            ServerFault::Away(_) => UNREACHABLE,
            ServerFault::Wrong(_) => UNUSABLE,
        };
        self.told = Some(server);
        self.say(complaint, &line);
    }

    pub(super) fn over_limit(&mut self) {
        let OutageLog { volume, uri, timeout, .. } = self;
        let line = format!(
            "the server of {uri}, the origin of {volume}, has been unreachable for {} s: requests that need it fail until it returns",
            timeout.as_secs()
        );
        self.say(OVER, &line);
    }

    /// Logs requests that failed because they were repeated for too long.
    pub(super) fn fatal(&mut self, count: usize) {
        let OutageLog { volume, uri, timeout, .. } = self;
        let requests = if count == 1 { "request" } else { "requests" };
        let line = format!(
            "{count} {requests}, each of which repeatedly ended with the loss of the server for {} s, \
             failed: see the log of the server of {uri}, the origin of {volume}",
            timeout.as_secs()
        );
        self.say(FATAL, &line);
    }

    fn say(&mut self, complaint: Complaint, line: &str) {
        self.complaints.say(self.clock.now(), complaint.about(0), format_args!("{line}"));
    }

    pub(super) fn tell_held_back(&mut self) {
        self.complaints.tell_held_back(self.clock.now(), |_| &self.volume);
    }

    pub(super) fn until_due(&self) -> Option<Duration> {
        self.complaints.poll_timeout().map(|due| span(self.clock.now(), due))
    }
}

impl Drop for OutageLog {
    fn drop(&mut self) {
        self.complaints.tell_all_held_back(self.clock.now(), |_| &self.volume);
    }
}
