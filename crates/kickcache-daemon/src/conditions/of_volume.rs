//! Conditions of a volume.

use std::time::{Duration, Instant};

use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_units::{counted, show_bytes, show_count};

use crate::conditions::volume_history::{Gain, VolumeHistory};
use crate::conditions::{Surroundings, in_order, show_span};
use crate::control::condition::{Condition, ConditionKind};
use crate::control::report::{CacheReport, HealthWord, VolumeReport};
use crate::devices::bypassed_device::origin_moved;
use crate::devices::offline::EXTENTS_SHOWN;
use crate::extents::show_extents;
use crate::shell_command::DaemonCommands;
use crate::words::ModeWord;

/// How long an error of a device counts for a condition, in seconds.
pub(super) const RECENT_SECONDS: f64 = 600.0;
/// The least age of dirty blocks for a condition, in seconds; fewer bytes than are dirty must have been
/// written back.
const DIRTY_SECONDS_MAX: f64 = 6.0 * 3_600.0;
/// The least time without progress of writeback for a condition, while writeback has to run.
const STUCK_MIN: Duration = Duration::from_secs(60);
/// How long requests that were held back count for a condition.
const HELD_SPAN: Duration = Duration::from_secs(60);
/// How long healed blocks count for a condition.
const HEALED_SPAN: Duration = Duration::from_secs(3_600);

/// A volume in a report, with the cache device's report and the volume's earlier figures.
pub(super) struct VolumeContext<'a> {
    pub(super) cache: &'a CacheReport,
    pub(super) volume: &'a VolumeReport,
    pub(super) history: &'a VolumeHistory,
    pub(super) now: Instant,
}

impl VolumeContext<'_> {
    pub(super) fn find(&self, around: &Surroundings<'_>, found: &mut Vec<Condition>) {
        let commands = around.commands;
        let all = [
            self.damaged(),
            self.unlinked(commands),
            self.device_removed(),
            self.origin_away().or_else(|| self.origin_silent()),
            self.origin_failing(),
            self.only_on_failed_device(commands),
            self.stuck(),
            self.too_old(commands),
            self.limited(),
            self.no_gain(commands),
            self.recovered(commands),
            self.healed(),
            self.paused(commands),
            self.draining(),
        ];
        let named = |condition: Condition| condition.of_volume(&self.volume.name);
        found.extend(all.into_iter().flatten().map(named));
    }

    fn damaged(&self) -> Option<Condition> {
        let bytes = self.volume.damaged_bytes;
        let remedy = "overwrite each of these blocks completely, or restore it from a backup";
        (bytes > 0).then(|| {
            Condition::new(ConditionKind::DamagedBlocks, damage(self.volume, &self.cache.device), remedy)
                .figure("damaged", bytes as f64, "bytes")
        })
    }

    fn unlinked(&self, commands: &DaemonCommands) -> Option<Condition> {
        let at = self.volume.origin_unlinked_at.as_ref()?;
        let what = format!(
            "its origin {} was removed, or replaced by another file: its data have no name, and are lost when the daemon ends",
            self.volume.origin
        );
        let (name, drain) = (&self.volume.name, commands.drain(&self.volume.name).to_string());
        let remedy = format!(
            "{}, then copy the data while the daemon runs (`cp --sparse=always {at} FILE`), and serve FILE as the origin with {}",
            in_order(&[&drain]),
            origin_moved(name)
        );
        Some(Condition::new(ConditionKind::FileUnlinked, what, remedy).commands([drain]))
    }

    fn device_removed(&self) -> Option<Condition> {
        let device = self.volume.served_at.ublk_removed.as_ref()?;
        let what = format!("its device {device} was removed by another program");
        let remedy = "stop this daemon, and serve the volume again";
        Some(Condition::new(ConditionKind::DeviceRemoved, what, remedy))
    }

    fn origin_away(&self) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.origin_away_seconds?;
        let (origin, waiting) = (&volume.origin, volume.requests_in_flight);
        let what = format!("origin away for {}, {} waiting", show_span(seconds), counted(waiting, "request"));
        let remedy = match volume.origin_fails_in_seconds {
            Some(left) if left > 0.0 => {
                format!("check the server at {origin}; clients get errors in {}", show_span(left))
            }
            Some(_) => format!("check the server at {origin}; clients get errors until it is back"),
            None => format!("check the server at {origin}"),
        };
        let condition = Condition::new(ConditionKind::OriginAway, what, remedy).lasting(seconds);
        let condition = condition.figure("waiting_requests", waiting as f64, "requests");
        let condition = match volume.origin_fails_in_seconds {
            Some(left) => condition.figure("fails_in", left, "s"),
            None => condition,
        };
        Some(match &volume.origin_away_why {
            Some(why) => condition.because(why),
            None => condition,
        })
    }

    fn origin_silent(&self) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.origin_silent_seconds?;
        let (span, waiting) = (show_span(seconds), counted(volume.requests_in_flight, "request"));
        let what = format!(
            "its origin {} is silent: it has completed no operation for {span}, {waiting} waiting",
            volume.origin
        );
        let condition =
            Condition::new(ConditionKind::OriginSilent, what, "check the disk and its connection");
        let waiting = volume.requests_in_flight as f64;
        Some(condition.lasting(seconds).figure("waiting_requests", waiting, "requests"))
    }

    fn origin_failing(&self) -> Option<Condition> {
        let error = self.volume.origin_last_error.as_ref();
        let error = error.filter(|error| error.seconds_ago < RECENT_SECONDS)?;
        let what = format!("its origin {} had {}", self.volume.origin, error.show());
        let remedy = "check the origin; the log has the first error of each kind";
        let condition = Condition::new(ConditionKind::OriginFailing, what, remedy);
        Some(condition.figure("errors", error.count as f64, "operations"))
    }

    fn only_on_failed_device(&self, commands: &DaemonCommands) -> Option<Condition> {
        let volume = self.volume;
        if !volume.incomplete {
            return None;
        }
        let device = &self.cache.device;
        let what = match volume.dirty_bytes {
            0 => "its origin has all data, and has yet to flush it".to_owned(),
            dirty => format!("{} are dirty and only on {device}, which is out of service", show_bytes(dirty)),
        };
        let drain = commands.drain(&volume.name).to_string();
        let remedy = format!("{} before a stop; it writes back the readable blocks", in_order(&[&drain]));
        let condition = Condition::new(ConditionKind::DirtyOutOfService, what, remedy).commands([drain]);
        Some(condition.figure("dirty", volume.dirty_bytes as f64, "bytes"))
    }

    fn stuck(&self) -> Option<Condition> {
        let volume = self.volume;
        let still = self.history.without_progress(self.now);
        let capacity = self.cache.capacity_bytes as f64;
        let is_above = volume.dirty_bytes as f64 > volume.limits.dirty_high * capacity;
        let idle_after = Duration::from_secs_f64(volume.limits.idle_after_seconds.clamp(0.0, 1e6));
        let is_idle = self.history.idle(self.now) >= idle_after + STUCK_MIN;
        let must_write = volume.draining || is_above || is_idle;
        let is_stuck = volume.dirty_bytes > 0 && still >= STUCK_MIN && must_write;
        if !is_stuck || self.cache.health != HealthWord::Good {
            return None;
        }
        let (dirty, span) = (show_bytes(volume.dirty_bytes), show_span(still.as_secs_f64()));
        let what = format!("writeback has made no progress for {span}; {dirty} are dirty");
        let remedy = format!("check the origin {}, its errors and its connection", volume.origin);
        let condition = Condition::new(ConditionKind::WritebackStuck, what, remedy);
        let dirty = volume.dirty_bytes as f64;
        Some(condition.lasting(still.as_secs_f64()).figure("dirty", dirty, "bytes"))
    }

    fn too_old(&self, commands: &DaemonCommands) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.dirty_seconds.filter(|seconds| *seconds >= DIRTY_SECONDS_MAX)?;
        let written = self.history.written_back_in_six_hours()? * BLOCK_SIZE;
        // A volume that is written to without a pause always has some dirty block.
        if written >= volume.dirty_bytes {
            return None;
        }
        let what = format!("{} are dirty, some for {}", show_bytes(volume.dirty_bytes), show_span(seconds));
        let drain = commands.drain(&volume.name).to_string();
        let condition = Condition::new(ConditionKind::DirtyTooOld, what, in_order(&[&drain]));
        Some(condition.lasting(seconds).commands([drain]).figure("dirty", volume.dirty_bytes as f64, "bytes"))
    }

    fn limited(&self) -> Option<Condition> {
        let limits = &self.volume.limits;
        if !self.history.held_within(self.now, HELD_SPAN) {
            return None;
        }
        let bytes = limits.client_bytes_per_second.map(|bytes| format!("{}/s", show_bytes(bytes)));
        let requests =
            limits.client_requests_per_second.map(|requests| format!("{} requests/s", show_count(requests)));
        let caps: Vec<String> = bytes.into_iter().chain(requests).collect();
        let what = format!("the limit of its clients ({}) holds requests back", caps.join(", "));
        let remedy = "raise `client-bandwidth` or `client-iops`, if clients shall be faster";
        let held = self.volume.held_requests as f64;
        let condition = Condition::new(ConditionKind::ClientsLimited, what, remedy);
        Some(condition.figure("held", held, "requests"))
    }

    fn no_gain(&self, commands: &DaemonCommands) -> Option<Condition> {
        let Gain::None { cache_ms, origin_ms } = self.history.gain else { return None };
        let is_used = self.cache.health == HealthWord::Good && self.volume.mode != ModeWord::Bypass;
        if !is_used {
            return None;
        }
        let what = format!(
            "the cache does not pay: reads from it take {cache_ms:.2} ms on average, those from the origin {origin_ms:.2} ms"
        );
        let bypass = commands.mode(&self.volume.name, ModeWord::Bypass.as_str()).to_string();
        let remedy = format!("use a faster cache device, or stop caching: {}", in_order(&[&bypass]));
        let condition = Condition::new(ConditionKind::CacheDoesNotPay, what, remedy).commands([bypass]);
        Some(condition.figure("cache_mean", cache_ms, "ms").figure("origin_mean", origin_ms, "ms"))
    }

    fn recovered(&self, commands: &DaemonCommands) -> Option<Condition> {
        let recovered = self.volume.recovered_bytes;
        if recovered == 0 || self.volume.incomplete {
            return None;
        }
        let what = format!(
            "{} were recovered at the start; {} are dirty",
            counted(recovered / BLOCK_SIZE, "dirty block"),
            show_bytes(self.volume.dirty_bytes)
        );
        let drain = commands.drain(&self.volume.name).to_string();
        let remedy = format!("wait for writeback, or {}", in_order(&[&drain]));
        let condition = Condition::new(ConditionKind::Recovered, what, remedy).commands([drain]);
        Some(condition.figure("recovered", recovered as f64, "bytes"))
    }

    fn healed(&self) -> Option<Condition> {
        let blocks = self.volume.counters.healed_blocks;
        self.history.healed_within(self.now, HEALED_SPAN).then(|| {
            let what = format!(
                "{} with a damaged copy in the cache: read from the origin instead",
                counted(blocks, "block")
            );
            let remedy = format!(
                "watch the cache device {}; if more are found, replace the device",
                self.cache.device
            );
            Condition::new(ConditionKind::BlocksHealed, what, remedy).figure(
                "healed",
                blocks as f64,
                "blocks",
            )
        })
    }

    fn paused(&self, commands: &DaemonCommands) -> Option<Condition> {
        let left = self.volume.caching_paused_seconds?;
        let what = format!("reads are not cached for {} more", show_span(left));
        let end = commands.end_pause(&self.volume.name).to_string();
        let remedy = format!("wait for its end, or {}", in_order(&[&end]));
        let condition = Condition::new(ConditionKind::CachingPaused, what, remedy).commands([end]);
        Some(condition.figure("left", left, "s"))
    }

    fn draining(&self) -> Option<Condition> {
        let volume = self.volume;
        let left = volume.not_clean_bytes();
        volume.draining.then(|| {
            let what = format!("is being drained: {} are left", show_bytes(left));
            let condition = Condition::new(ConditionKind::OperationRunning, what, "wait for its end");
            condition.figure("left", left as f64, "bytes")
        })
    }
}

/// The lost blocks of a volume.
pub fn damage(volume: &VolumeReport, device: &str) -> String {
    let blocks = volume.damaged_bytes / BLOCK_SIZE;
    let extents: Vec<ByteExtent> = volume.damaged.iter().map(ByteExtent::from).collect();
    let (what, them) = match blocks {
        1 => (format!("1 dirty block on {device} is"), "it"),
        some => (format!("{} dirty blocks on {device} are", show_count(some)), "them"),
    };
    let which = show_extents(&extents, EXTENTS_SHOWN);
    let told: u64 = extents.iter().map(|extent| extent.length).sum();
    let more = if told < volume.damaged_bytes { "; more are not listed" } else { "" };
    format!("{what} lost, as {which}{more}; reads of {them} fail until the whole block is written again")
}
