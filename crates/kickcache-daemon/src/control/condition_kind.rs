//! The kinds of conditions, in one table.

use serde::{Deserialize, Serialize};

/// How urgent a condition is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The condition is no problem.
    Notice,
    /// A problem that is less urgent than an error.
    Warning,
    /// The most urgent problems.
    Error,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    /// Whether `status --check` reports a condition of this severity as a problem.
    pub fn is_problem(self) -> bool {
        self > Severity::Notice
    }
}

/// Whether a condition of a cache device is also a condition of its volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// A condition of a device concerns the device alone.
    Subject,
    /// A condition of a device concerns its volumes, too.
    Volumes,
}

/// The entry of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindEntry {
    /// Its name in JSON, metrics and the log.
    pub name: &'static str,
    pub severity: Severity,
    /// The word in the column HEALTH.
    pub word: &'static str,
    pub effect: &'static str,
    pub reach: Reach,
    /// The log event of the begin of such a condition; `None` if the event is `condition_begun`.
    pub event: Option<&'static str>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $severity:ident, $word:literal, $reach:ident, $event:expr,
        $effect:literal;)*) => {
        /// The kind of a condition, the most urgent first.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub enum ConditionKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl ConditionKind {
            pub const ALL: &'static [ConditionKind] = &[$(ConditionKind::$kind,)*];

            pub const fn entry(self) -> KindEntry {
                match self {
                    $(ConditionKind::$kind => KindEntry {
                        name: $name, severity: Severity::$severity, word: $word,
                        reach: Reach::$reach, event: $event, effect: $effect,
                    },)*
                }
            }
        }
    };
}

kinds! {
    DamagedBlocks: "damaged-blocks", Error, "DAMAGED", Subject, Some("dirty_lost"),
        "reads of these blocks return errors (EIO) until the whole block is written again; all other requests are served";
    OutOfServiceUnrecorded: "out-of-service-unrecorded", Error, "NOT RECORDED", Volumes, Some("out_of_service_unrecorded"),
        "writes fail; reads are served";
    /// Blocks of a volume may be dirty or unflushed on a cache device that is out of service.
    DirtyOutOfService: "dirty-out-of-service", Error, "DIRTY", Subject, Some("dirty_out_of_service"),
        "reads of these blocks return errors (EIO) if the device cannot be read; all other requests are served by the origin";
    /// The file of an origin or of a cache device has no name any more while it is served: it was removed, or
    /// replaced by another file.
    FileUnlinked: "file-unlinked", Error, "UNLINKED", Subject, None,
        "clients are served until the daemon ends; then these data are lost";
    /// A cache device is out of service; at most its dirty and unflushed blocks are used.
    CacheOutOfService: "cache-out-of-service", Error, "no cache", Volumes, Some("cache_out_of_service"),
        "clients are served by the origins, without the cache";
    OriginAway: "origin-away", Error, "ORIGIN AWAY", Subject, Some("origin_lost"),
        "requests that need the origin wait; cached blocks are served";
    /// An origin has completed none of its outstanding operations for at least 10 s.
    OriginSilent: "origin-silent", Error, "SILENT", Subject, Some("device_silent"),
        "requests that need the origin wait; cached blocks are served";
    /// A cache device has completed none of its outstanding operations for at least 10 s.
    CacheSilent: "cache-silent", Error, "SILENT", Volumes, Some("device_silent"),
        "requests of its volumes wait";
    LoopSilent: "loop-silent", Error, "SILENT", Volumes, None,
        "requests of its volumes are not answered";
    /// A configured volume is not served, or a volume without a configuration has blocks on a cache device which
    /// its origin lacks.
    VolumeNotServed: "volume-not-served", Error, "NOT SERVED", Subject, Some("volume_not_served"),
        "clients cannot use this volume; other volumes are served";
    /// The ublk device of a volume was removed by another program.
    DeviceRemoved: "device-removed", Error, "DEVICE REMOVED", Subject, Some("ublk_lost"),
        "requests at the removed device fail";
    StateUnwritable: "state-unwritable", Error, "STATE", Subject, None,
        "clients are served; if a cache device fails meanwhile, writes may fail";
    /// The privileged process of a daemon with another user has ended.
    MonitorEnded: "monitor-ended", Error, "MONITOR", Subject, Some("monitor_ended"),
        "clients are served";
    /// Operations of an origin failed in the last 10 minutes.
    OriginFailing: "origin-failing", Warning, "errors", Subject, Some("device_error"),
        "requests of clients that met an error failed; writeback is tried again; this ends 10 minutes after the last error";
    /// Operations of a cache device failed in the last 10 minutes.
    CacheFailing: "cache-failing", Warning, "cache errors", Subject, Some("device_error"),
        "clients are served; unreadable clean blocks are read from the origin; this ends 10 minutes after the last error";
    ReplacementFailed: "replacement-failed", Warning, "not replaced", Subject, Some("cache_replacement_failed"),
        "clients are served with the old device";
    WritebackStuck: "writeback-stuck", Warning, "writeback stuck", Subject, None,
        "clients are served until the log is full of dirty blocks; then writes wait for the origin";
    /// A volume has had dirty blocks for at least 6 hours, and fewer bytes than are dirty were written back in the
    /// last 6 hours.
    DirtyTooOld: "dirty-too-old", Warning, "dirty long", Subject, None,
        "clients are served; a loss of the cache device would lose these blocks";
    /// Dirty and unflushed blocks fill at least 60 % of the capacity of the cache device.
    LogNearlyFull: "log-nearly-full", Warning, "log full", Subject, None,
        "clients are served; at the dirty limit writes are as slow as the origin";
    /// The write budget of a cache device is exceeded, or running out.
    WearOverBudget: "wear-over-budget", Warning, "wear", Subject, None,
        "clients are served";
    CertificatesUnusable: "certificates-unusable", Warning, "certificates", Subject, Some("tls_not_renewed"),
        "clients are served with the earlier certificates until these expire";
    /// Requests have waited for memory for at least 10 s.
    MemoryShort: "memory-short", Warning, "memory", Subject, None,
        "these requests wait";
    /// In the last hour, clean or unflushed blocks were found damaged in the cache, and read from the origin.
    BlocksHealed: "blocks-healed", Notice, "healed", Subject, None,
        "clients are served";
    /// In the last minute, a limit on clients held requests back.
    ClientsLimited: "clients-limited", Notice, "limited", Subject, None,
        "requests wait as long as the limit demands";
    CacheDoesNotPay: "cache-does-not-pay", Notice, "no gain", Subject, None,
        "clients are served, as fast as without the cache";
    Recovered: "recovered", Notice, "recovered", Subject, None,
        "clients are served";
    CacheLeftOut: "cache-left-out", Notice, "no cache", Volumes, Some("cache_left_out"),
        "clients are served by the origins, without the cache";
    CachingPaused: "caching-paused", Notice, "paused", Subject, Some("caching_paused"),
        "clients are served";
    OperationRunning: "operation-running", Notice, "busy", Subject, None,
        "clients are served";
}

impl ConditionKind {
    /// Its name in JSON, metrics and the log.
    pub const fn as_str(self) -> &'static str {
        self.entry().name
    }
}
