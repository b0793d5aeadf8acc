//! The parameters of a rotating disk: its description, and the times that follow from it.

use serde::{Deserialize, Serialize};

use crate::device_model::{Figures, Range, bytes};

/// Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskParameters {
    pub rpm: f64,
    pub track_bytes: u64,
    pub heads: u64,
    /// Seek time over `d` cylinders: `constant + root * sqrt(d) + linear * d`.
    pub seek_constant: f64,
    pub seek_root: f64,
    pub seek_linear: f64,
    /// Time to another place in the same cylinder, also on the same track.
    pub settle: f64,
    /// Fixed cost of a command or a destage that does not continue the previous one on the medium.
    pub overhead: f64,
    pub segments: usize,
    /// Bytes of a segment, and the reach of read-ahead.
    pub segment_bytes: u64,
    /// Shortest and longest time of a command that the caches answer, without the wait below.
    pub hit: (f64, f64),
    /// Probability in 1/1000 that a command that the caches answer waits while the medium works.
    pub blocked_permille: u64,
    /// Shortest and longest wait of a command that the caches answer.
    pub blocked: (f64, f64),
    /// The most commands that the drive chooses among, the oldest first.
    pub queue_depth: usize,
    pub write_cache_bytes: u64,
}

impl Default for DiskParameters {
    fn default() -> DiskParameters {
        DiskParameters::rpm_7200()
    }
}

impl DiskParameters {
    pub(crate) fn figures(&self) -> Figures {
        use Range::{NotNegative, Positive, UpTo};
        vec![
            ("rpm", self.rpm, Positive),
            ("track_bytes", bytes(self.track_bytes), Positive),
            ("heads", bytes(self.heads), Positive),
            ("seek_constant", self.seek_constant, NotNegative),
            ("seek_root", self.seek_root, NotNegative),
            ("seek_linear", self.seek_linear, NotNegative),
            ("settle", self.settle, NotNegative),
            ("overhead", self.overhead, NotNegative),
            ("segment_bytes", bytes(self.segment_bytes), Positive),
            ("the first of hit", self.hit.0, UpTo(self.hit.1)),
            ("the second of hit", self.hit.1, NotNegative),
            ("blocked_permille", bytes(self.blocked_permille), UpTo(1_000.0)),
            ("the first of blocked", self.blocked.0, UpTo(self.blocked.1)),
            ("the second of blocked", self.blocked.1, NotNegative),
            ("queue_depth", bytes(self.queue_depth as u64), Positive),
        ]
    }

    /// A 2.5 inch, 5400 rpm drive of 4 TB, fitted to a published measurement of two of them as a mirror.
    pub const fn rpm_5400() -> DiskParameters {
        DiskParameters {
            rpm: 5_400.0,
            track_bytes: 1_500_000,
            heads: 8,
            seek_constant: 2_900.0,
            seek_root: 20.9,
            seek_linear: 0.0221,
            settle: 2_030.0,
            overhead: 500.0,
            segments: 240,
            segment_bytes: 128 << 10,
            hit: (70.0, 200.0),
            blocked_permille: 300,
            blocked: (500.0, 1_500.0),
            queue_depth: 32,
            write_cache_bytes: 32 << 20,
        }
    }

    /// A 3.5 inch, 7200 rpm drive of 4 TB.
    pub const fn rpm_7200() -> DiskParameters {
        DiskParameters {
            rpm: 7_200.0,
            heads: 10,
            seek_constant: 800.0,
            seek_linear: 0.0166,
            settle: 600.0,
            overhead: 200.0,
            segments: 128,
            segment_bytes: 512 << 10,
            write_cache_bytes: 64 << 20,
            ..DiskParameters::rpm_5400()
        }
    }

    pub(super) fn revolution(&self) -> f64 {
        60e6 / self.rpm
    }

    pub(super) fn transfer(&self, length: u64) -> f64 {
        bytes(length) / bytes(self.track_bytes) * self.revolution()
    }

    pub(super) fn cylinder(&self, offset: u64) -> u64 {
        offset / self.track_bytes / self.heads
    }

    /// Time until the head is over `offset`, if the move starts at `now` from `head`.
    pub(super) fn position(&self, now: f64, head: u64, offset: u64) -> f64 {
        let seek = match self.cylinder(head).abs_diff(self.cylinder(offset)) {
            0 => self.settle,
            distance => {
                self.seek_constant
                    + self.seek_root * bytes(distance).sqrt()
                    + self.seek_linear * bytes(distance)
            }
        };
        let angle = bytes(offset % self.track_bytes) / bytes(self.track_bytes);
        let arrival = ((now + seek) / self.revolution()).fract();
        seek + (angle - arrival).rem_euclid(1.0) * self.revolution()
    }
}
