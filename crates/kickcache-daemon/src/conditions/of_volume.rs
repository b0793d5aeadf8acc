//! Conditions of a volume.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_units::{counted, show_bytes, show_count, show_ratio};

use crate::conditions::Surroundings;
use crate::conditions::volume_history::{Gain, VolumeHistory};
use crate::control::condition::{Condition, ConditionKind, show_span};
use crate::control::remedy::{Remedy, Step};
use crate::control::report::{CacheReport, HealthWord, VolumeReport};
use crate::devices::bypassed_device::origin_moved;
use crate::devices::offline::EXTENTS_SHOWN;
use crate::extents::show_extents;
use crate::shell_command::{DaemonCommands, ShellCommand, quoted};
use crate::words::ModeWord;

/// How long an error of a device counts for a condition, in seconds.
pub(super) const RECENT_SECONDS: f64 = 600.0;
/// Seconds with dirty blocks after which a volume may be `DirtyTooOld`.
const DIRTY_SECONDS_MAX: f64 = 6.0 * 3_600.0;
/// The least time without progress of writeback for `WritebackStuck`.
const STUCK_MIN: Duration = Duration::from_secs(60);
/// How long requests that were held back count for a condition.
const HELD_SPAN: Duration = Duration::from_secs(60);
/// How long healed blocks count for a condition.
const HEALED_SPAN: Duration = Duration::from_secs(3_600);

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
            self.damaged(commands),
            self.unlinked(commands),
            self.device_removed(commands),
            self.origin_away().or_else(|| self.origin_silent()),
            self.origin_failing(),
            self.only_on_failed_device(commands),
            self.stuck(),
            self.too_old(commands),
            self.limited(commands),
            self.no_gain(commands),
            self.recovered(commands),
            self.healed(),
            self.paused(commands),
            self.draining(),
        ];
        let named = |condition: Condition| condition.of_volume(&self.volume.name);
        found.extend(all.into_iter().flatten().map(named));
    }

    fn damaged(&self, commands: &DaemonCommands) -> Option<Condition> {
        let (name, bytes) = (&self.volume.name, self.volume.damaged_bytes);
        let status = commands.to_daemon(ShellCommand::new("status").word(name).word("--json"));
        let steps = vec![
            Step::run(
                format!("list all lost blocks: `damaged` in the output has their byte offsets on {name}"),
                status,
            ),
            Step::outside(format!(
                "on the machine that uses {name}, find the files at these offsets, with the tools of its file system or \
                 database"
            )),
            Step::outside(format!(
                "on that machine, overwrite these files in their present blocks (`dd conv=notrunc`; a new file gets other \
                 blocks), or all of {name}, from a backup: the condition ends when every lost block has been written again"
            )),
        ];
        let replace = commands.replace(Path::new(&self.cache.device));
        let remedy = Remedy::from(steps).or(Some(format!(
            "if blocks are lost again later, the cache device fails: move the cache with its dirty blocks to another one, \
             DEVICE, while clients are served (`{replace} DEVICE`)"
        )));
        let effect = format!(
            "reads of these blocks of {name} return errors (EIO) until the whole block is written again. All other \
             requests and volumes are served"
        );
        (bytes > 0).then(|| {
            Condition::new(ConditionKind::DamagedBlocks, lost(self.volume, &self.cache.device), remedy)
                .with_effect(effect)
                .figure("damaged", bytes as f64, "bytes")
        })
    }

    fn unlinked(&self, commands: &DaemonCommands) -> Option<Condition> {
        let at = self.volume.origin_unlinked_at.as_ref()?;
        let what = format!(
            "its origin {} was removed, or replaced by another file: its data have no name",
            self.volume.origin
        );
        let name = &self.volume.name;
        let remedy = vec![
            Step::run("write back its dirty blocks", commands.drain(name)),
            Step::outside(format!(
                "copy the data while the daemon runs (`cp --sparse=always {at} FILE`), and serve FILE as the origin with {}",
                origin_moved(name)
            )),
        ];
        Some(Condition::new(ConditionKind::FileUnlinked, what, remedy))
    }

    fn device_removed(&self, commands: &DaemonCommands) -> Option<Condition> {
        let device = self.volume.served_at.ublk_removed.as_ref()?;
        let what = format!("its device {device} was removed by another program");
        Some(Condition::new(ConditionKind::DeviceRemoved, what, commands.restart_step()))
    }

    fn origin_away(&self) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.origin_away_seconds?;
        let (origin, waiting) = (&volume.origin, volume.requests_in_flight);
        let what = format!("origin away, {} waiting", counted(waiting, "request"));
        let remedy = vec![
            Step::outside(format!(
                "on the machine of the server {origin}: start the server, or mend the network to it"
            )),
            Step::run("see whether the server can be reached", nbdinfo(origin)),
            Step::outside(
                "keep the daemon running: it connects again by itself (it tries every 5 s or more often), and \
                 requests continue",
            ),
        ];
        let condition = Condition::new(ConditionKind::OriginAway, what, remedy).lasting(seconds);
        let condition = condition.with_effect(self.effect_without_origin());
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

    fn effect_without_origin(&self) -> String {
        let VolumeReport { name, mode, limits, .. } = self.volume;
        let needing = match self.volume.origin_fails_in_seconds {
            Some(left) if left > 0.0 => format!(
                "wait. If the server is not back in {}, all of these get errors (EIO), and new ones at once, until it is \
                 back",
                show_span(left)
            ),
            Some(_) => "get errors (EIO) at once until the server is back".into(),
            None => "wait".into(),
        };
        let served = match mode {
            ModeWord::WriteBack => {
                let share = show_ratio(self.cache.not_clean_bytes(), self.cache.capacity_bytes);
                let limit = limits.dirty_limit * 100.0;
                format!(
                    "Reads of cached blocks and writes of whole blocks succeed as before. Writes stay dirty on the cache \
                     device until at most {limit:.0} % of it is dirty ({share} now), and from then on need the origin. No \
                     acknowledged write is lost"
                )
            }
            _ => "Reads of cached blocks succeed as before".into(),
        };
        format!(
            "requests of {name} that need the origin {needing}. {served}. Volumes with other origins are not affected"
        )
    }

    fn origin_silent(&self) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.origin_silent_seconds?;
        let waiting = counted(volume.requests_in_flight, "request");
        let what =
            format!("its origin {} is silent: it completes no operation, {waiting} waiting", volume.origin);
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
        let drain = commands.drain(&volume.name);
        let remedy = Step::run("keep the daemon running, and write back the readable blocks", drain);
        let condition = Condition::new(ConditionKind::DirtyOutOfService, what, remedy);
        let condition = condition.with_effect(dirty_reads(self.cache));
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
        let what = format!("writeback makes no progress; {} are dirty", show_bytes(volume.dirty_bytes));
        let remedy = format!("check the origin {}, its errors and its connection", volume.origin);
        let condition = Condition::new(ConditionKind::WritebackStuck, what, remedy);
        let dirty = volume.dirty_bytes as f64;
        Some(condition.lasting(still.as_secs_f64()).figure("dirty", dirty, "bytes"))
    }

    fn too_old(&self, commands: &DaemonCommands) -> Option<Condition> {
        let volume = self.volume;
        let seconds = volume.dirty_seconds.filter(|seconds| *seconds >= DIRTY_SECONDS_MAX)?;
        let written = self.history.written_back_in_six_hours()? * BLOCK_SIZE;
        if written >= volume.dirty_bytes {
            return None;
        }
        let what = format!("blocks stay dirty; {} now", show_bytes(volume.dirty_bytes));
        let drain = Step::run("write them back", commands.drain(&volume.name));
        let condition = Condition::new(ConditionKind::DirtyTooOld, what, drain);
        Some(condition.lasting(seconds).figure("dirty", volume.dirty_bytes as f64, "bytes"))
    }

    fn limited(&self, commands: &DaemonCommands) -> Option<Condition> {
        let limits = &self.volume.limits;
        if !self.history.held_within(self.now, HELD_SPAN) {
            return None;
        }
        let bytes = limits.client_bytes_per_second.map(|bytes| format!("{}/s", show_bytes(bytes)));
        let requests =
            limits.client_requests_per_second.map(|requests| format!("{} requests/s", show_count(requests)));
        let caps: Vec<String> = bytes.into_iter().chain(requests).collect();
        let what = format!("the limit of its clients ({}) holds requests back", caps.join(", "));
        let keys = [
            limits.client_bytes_per_second.map(|_| "`client-bandwidth`"),
            limits.client_requests_per_second.map(|_| "`client-iops`"),
        ];
        let keys: Vec<&str> = keys.into_iter().flatten().collect();
        let remedy = vec![
            Step::outside(format!("raise {}, if clients shall be faster", keys.join(" or "))),
            Step::run("use the new limit", commands.reload()).only_if("the daemon has a configuration file"),
        ];
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
        let bypass = commands.mode(&self.volume.name, ModeWord::Bypass.as_str());
        let remedy = Step::run("use a faster cache device, or stop caching", bypass);
        let condition = Condition::new(ConditionKind::CacheDoesNotPay, what, remedy);
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
        let remedy =
            Step::run("wait for writeback, or drain the volume now", commands.drain(&self.volume.name));
        let condition = Condition::new(ConditionKind::Recovered, what, remedy);
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
        let remedy = Step::run("wait for its end, or end it now", commands.end_pause(&self.volume.name));
        let condition = Condition::new(ConditionKind::CachingPaused, what, remedy);
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

/// The lost blocks of a volume, and the effect on clients.
pub fn damage(volume: &VolumeReport, device: &str) -> String {
    let them = if volume.damaged_bytes == BLOCK_SIZE { "it" } else { "them" };
    let lost = lost(volume, device);
    format!("{lost}; reads of {them} fail until the whole block is written again")
}

/// Reads of dirty blocks on a cache device out of service, as far as its errors show.
pub(super) fn dirty_reads(cache: &CacheReport) -> String {
    let failed = cache.errors_by_kind.iter().filter(|errors| errors.operation == "read");
    match failed.map(|errors| errors.count).sum() {
        0 => "Reads of the dirty blocks still use the device, and none has failed so far. One that fails returns an error \
              (EIO)"
            .into(),
        some => format!(
            "Reads of the dirty blocks still use the device. {} of it failed so far: reads of unreadable blocks return \
             errors (EIO)",
            counted(some, "read")
        ),
    }
}

fn lost(volume: &VolumeReport, device: &str) -> String {
    let what = match volume.damaged_bytes / BLOCK_SIZE {
        1 => "1 dirty block is".into(),
        some => format!("{} dirty blocks are", show_count(some)),
    };
    let extents: Vec<ByteExtent> = volume.damaged.iter().map(ByteExtent::from).collect();
    let which = show_extents(&extents, EXTENTS_SHOWN);
    let told: u64 = extents.iter().map(|extent| extent.length).sum();
    let more = if told < volume.damaged_bytes { "; more are not listed" } else { "" };
    format!("{what} lost, damaged on {device}; on the volume, as {which}{more}")
}

fn nbdinfo(uri: &str) -> String {
    format!("nbdinfo {}", quoted(OsStr::new(uri)))
}
