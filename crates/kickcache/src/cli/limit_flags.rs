//! The flags that limit a volume.

use std::time::Duration;

use kickcache_daemon::plan::dirty_marks::DirtyMark;
use kickcache_daemon::plan::rate::{ByteRate, RequestRate};
use kickcache_daemon::plan::room::Room;
use kickcache_daemon::plan::span::{parse_burst, parse_idle_time};
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use serde_json::{Map, Value};

/// Limits of a volume; a limit that is not given has its default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LimitFlags {
    /// Dirty share above which writes go through to the origin, in percent of the cache device: 1% to 90%
    /// [default: 70%]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_limit: Option<DirtyMark>,
    /// Dirty share above which writes are delayed to match the rate of writeback, in percent of the cache
    /// device: 1% to 90% [default: 5/7 of the limit]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_high: Option<DirtyMark>,
    /// Dirty share above which writeback runs alongside client I/O, in percent of the cache device: 1% to 90%
    /// [default: 3/5 of the high mark]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_low: Option<DirtyMark>,
    /// Idle time after which all dirty blocks are written back: 10ms to 24h [default: 500ms]
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = parse_idle_time, allow_hyphen_values = true)]
    idle_after: Option<Duration>,
    /// Limit of writeback in bytes a second, such as 50M/s, below the high mark: 64K/s or more [default: no
    /// limit]
    #[arg(long, value_name = "RATE", requires = "cache", allow_hyphen_values = true)]
    writeback_rate: Option<ByteRate>,
    /// Limit of writeback in requests a second, below the high mark [default: no limit]
    #[arg(long, value_name = "N", requires = "cache", allow_hyphen_values = true)]
    writeback_iops: Option<RequestRate>,
    /// Limit of all clients in bytes a second, such as 100M/s: 64K/s or more [default: no limit]
    #[arg(long, value_name = "RATE", requires = "cache", allow_hyphen_values = true)]
    client_bandwidth: Option<ByteRate>,
    /// Limit of all clients in requests a second [default: no limit]
    #[arg(long, value_name = "N", requires = "cache", allow_hyphen_values = true)]
    client_iops: Option<RequestRate>,
    /// How long unused quota accumulates for a burst: 10ms to 1h [default: 1s]
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = parse_burst, allow_hyphen_values = true)]
    client_burst: Option<Duration>,
    /// Cache space reserved for this volume, in percent of the cache device or bytes, such as 20% or 20G
    /// [default: none]
    #[arg(long, value_name = "PART|SIZE", requires = "cache", allow_hyphen_values = true)]
    room_min: Option<Room>,
    /// Cache space limit for this volume, in percent of the cache device or bytes; dirty blocks are never dropped for it
    /// [default: no limit]
    #[arg(long, value_name = "PART|SIZE", requires = "cache", allow_hyphen_values = true)]
    room_max: Option<Room>,
}

impl LimitFlags {
    pub(crate) fn keys(&self) -> Map<String, Value> {
        let mark = |mark: Option<DirtyMark>| mark.map(|mark| Value::from(mark.to_string()));
        let span = |span: Option<Duration>| span.map(|span| Value::from(format!("{}ms", span.as_millis())));
        let bytes = |rate: Option<ByteRate>| rate.map(|rate| Value::from(rate.per_second().to_string()));
        let requests = |rate: Option<RequestRate>| rate.map(|rate| Value::from(rate.per_second().get()));
        let room = |room: Option<Room>| room.map(|room| Value::from(room.key()));
        let keys = [
            ("dirty-limit", mark(self.dirty_limit)),
            ("dirty-high", mark(self.dirty_high)),
            ("dirty-low", mark(self.dirty_low)),
            ("idle-after", span(self.idle_after)),
            ("writeback-rate", bytes(self.writeback_rate)),
            ("writeback-iops", requests(self.writeback_iops)),
            ("client-bandwidth", bytes(self.client_bandwidth)),
            ("client-iops", requests(self.client_iops)),
            ("client-burst", span(self.client_burst)),
            ("room-min", room(self.room_min)),
            ("room-max", room(self.room_max)),
        ];
        keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    pub(crate) fn limit(&self, volume: VolumeSpec) -> VolumeSpec {
        VolumeSpec {
            dirty_limit: self.dirty_limit.unwrap_or(volume.dirty_limit),
            dirty_high: self.dirty_high,
            dirty_low: self.dirty_low,
            idle_after: self.idle_after.unwrap_or(volume.idle_after),
            writeback_rate: self.writeback_rate,
            writeback_iops: self.writeback_iops,
            client_bandwidth: self.client_bandwidth,
            client_iops: self.client_iops,
            client_burst: self.client_burst.unwrap_or(volume.client_burst),
            room_min: self.room_min,
            room_max: self.room_max,
            ..volume
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn every_limit_flag_reaches_the_daemon_unchanged() {
        let all = [
            ["--dirty-limit", "63%"],
            ["--dirty-high", "40%"],
            ["--dirty-low", "20%"],
            ["--idle-after", "1250ms"],
            ["--writeback-rate", "50M/s"],
            ["--writeback-iops", "200"],
            ["--client-bandwidth", "1234567/s"],
            ["--client-iops", "2400"],
            ["--client-burst", "30s"],
            ["--room-min", "20%"],
            ["--room-max", "1234567K"],
        ];
        let command =
            LimitFlags::augment_args(Command::new("limits").arg(clap::Arg::new("cache").long("cache")));
        assert_eq!(command.get_arguments().count() - 1, all.len(), "the table has every flag");
        let matches = command
            .get_matches_from(["limits", "--cache", "/c"].into_iter().chain(all.into_iter().flatten()));
        let flags = LimitFlags::from_arg_matches(&matches).unwrap();
        let keys = flags.keys();
        let mut told: Vec<String> = keys.keys().map(|key| format!("--{key}")).collect();
        let mut said = all.map(|[flag, _]| flag.to_owned());
        told.sort_unstable();
        said.sort_unstable();
        assert_eq!(told, said);
        let volume = serde_json::json!({ "name": "v", "origin": "/o" });
        let parse = |volume| serde_json::from_value::<VolumeSpec>(volume).unwrap();
        let mut with_keys = volume.clone();
        with_keys.as_object_mut().unwrap().extend(keys);
        assert_eq!(parse(with_keys), flags.limit(parse(volume)));
    }
}
