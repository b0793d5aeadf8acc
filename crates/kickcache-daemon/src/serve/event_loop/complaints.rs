//! Lines of the log that clients and guests can provoke: a few of each kind a minute, and how many more there were.

use std::fmt;

use kickcache_engine::time::Instant;
use tracing::Level;

use super::{EventLoop, Volume};
use crate::serve::cache_engine::CacheEngine;
use crate::serve::rate_limit::{Held, LINES_MAX, RateLimit, SPAN};

/// What a line is about; those about guests say of which volume, by its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Complaint {
    TurnedAway,
    NotAccepted,
    LateHandshake,
    NoMemory,
    GuestConnected(usize),
    GuestGone(usize),
    GuestThrownOut(usize),
    GuestNotAccepted(usize),
    GuestBrokeRules(usize),
    SizeNotTold(usize),
}

impl Complaint {
    fn level(self) -> Level {
        match self {
            Complaint::NoMemory => Level::ERROR,
            Complaint::TurnedAway
            | Complaint::NotAccepted
            | Complaint::GuestThrownOut(_)
            | Complaint::GuestNotAccepted(_)
            | Complaint::GuestBrokeRules(_)
            | Complaint::SizeNotTold(_) => Level::WARN,
            Complaint::LateHandshake | Complaint::GuestConnected(_) | Complaint::GuestGone(_) => Level::INFO,
        }
    }

    /// What was held back, for the line that says how often.
    fn summary(self, volumes: &[Volume]) -> String {
        let name = |volume: usize| volumes[volume].info.name.as_str();
        match self {
            Complaint::TurnedAway => "clients were turned away".into(),
            Complaint::NotAccepted => "connections could not be accepted".into(),
            Complaint::LateHandshake => "clients did not finish their handshake in time".into(),
            Complaint::NoMemory => "requests failed for want of memory".into(),
            Complaint::GuestConnected(volume) => format!("virtual machines connected to {}", name(volume)),
            Complaint::GuestGone(volume) => format!("virtual machines of {} disconnected", name(volume)),
            Complaint::GuestThrownOut(volume) => {
                format!("virtual machines of {} were disconnected", name(volume))
            }
            Complaint::GuestBrokeRules(volume) => {
                format!("virtual machines of {} broke the rules of vhost-user", name(volume))
            }
            Complaint::SizeNotTold(volume) => {
                format!("virtual machines of {} could not be told of its size", name(volume))
            }
            Complaint::GuestNotAccepted(volume) => {
                format!("connections of virtual machines of {} could not be accepted", name(volume))
            }
        }
    }
}

/// What was said of late, and what was held back.
pub(crate) struct Complaints(RateLimit<Complaint>);

impl Default for Complaints {
    fn default() -> Complaints {
        Complaints(RateLimit::new(LINES_MAX, SPAN))
    }
}

impl Complaints {
    /// Writes a line, unless there were too many of the kind.
    pub(super) fn say(&mut self, now: Instant, complaint: Complaint, line: fmt::Arguments<'_>) {
        if self.0.allows(now, &complaint) {
            log(complaint.level(), line);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
}

impl<E: CacheEngine> EventLoop<E> {
    /// Says how many lines were held back in the spans that are over.
    pub(super) fn tell_held_back(&mut self, now: Instant) {
        while let Some((complaint, held)) = self.complaints.0.poll_held(now) {
            self.tell_of(complaint, held);
        }
    }

    /// Says what was held back until the end.
    pub(super) fn tell_all_held_back(&mut self, now: Instant) {
        for (complaint, held) in self.complaints.0.end(now) {
            self.tell_of(complaint, held);
        }
    }

    fn tell_of(&self, complaint: Complaint, held: Held) {
        let summary = complaint.summary(&self.volumes);
        log(complaint.level(), format_args!("{summary}: {held}"));
    }
}

fn log(level: Level, line: fmt::Arguments<'_>) {
    match level {
        Level::ERROR => tracing::error!("{line}"),
        Level::WARN => tracing::warn!("{line}"),
        _ => tracing::info!("{line}"),
    }
}
