//! The flags that limit a volume.

use std::time::Duration;

use kickcache_daemon::plan::dirty_marks::DirtyMark;
use kickcache_daemon::plan::rate::{ByteRate, RequestRate};
use kickcache_daemon::plan::room::Room;
use kickcache_daemon::plan::span::{parse_burst, parse_idle_time};
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use serde_json::{Map, Value};

/// Limits of a volume; what was not said is as by default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LimitFlags {
    /// Dirty part of the cache device above which writes go through to the origin: 1% to 90% [default: 70%]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_limit: Option<DirtyMark>,
    /// Dirty part from which on writeback goes at full speed [default: 5/7 of the limit]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_high: Option<DirtyMark>,
    /// Dirty part from which on writeback goes on beside requests [default: 3/5 of the high mark]
    #[arg(long, value_name = "PERCENT", requires = "cache", allow_hyphen_values = true)]
    dirty_low: Option<DirtyMark>,
    /// Without requests for this long, all that is dirty is written back: 10ms to 24h [default: 500ms]
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = parse_idle_time, allow_hyphen_values = true)]
    idle_after: Option<Duration>,
    /// Writeback gives the origin at most this many bytes a second, such as 50M/s, below the high mark [default: no cap]
    #[arg(long, value_name = "RATE", requires = "cache", allow_hyphen_values = true)]
    writeback_rate: Option<ByteRate>,
    /// Writeback gives the origin at most this many requests a second, below the high mark [default: no cap]
    #[arg(long, value_name = "N", requires = "cache", allow_hyphen_values = true)]
    writeback_iops: Option<RequestRate>,
    /// Clients read and write at most this many bytes a second together, such as 100M/s [default: no cap]
    #[arg(long, value_name = "RATE", requires = "cache", allow_hyphen_values = true)]
    client_bandwidth: Option<ByteRate>,
    /// Clients get at most this many requests a second together [default: no cap]
    #[arg(long, value_name = "N", requires = "cache", allow_hyphen_values = true)]
    client_iops: Option<RequestRate>,
    /// Clients may use at once what the caps left them for this long: 10ms to 1h [default: 1s]
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = parse_burst, allow_hyphen_values = true)]
    client_burst: Option<Duration>,
    /// What other volumes do not take from it of the cache device, such as 20% or 20G [default: nothing]
    #[arg(long, value_name = "PART|SIZE", requires = "cache", allow_hyphen_values = true)]
    room_min: Option<Room>,
    /// What it has of the cache device at most, such as 50% or 50G, but for dirty blocks [default: no bound]
    #[arg(long, value_name = "PART|SIZE", requires = "cache", allow_hyphen_values = true)]
    room_max: Option<Room>,
}

impl LimitFlags {
    /// What a configuration file would say of them.
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

    /// The volume, limited.
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
    fn a_daemon_is_told_every_limit_as_it_was_said() {
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
        assert_eq!(command.get_arguments().count() - 1, all.len(), "every flag is said here");
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
