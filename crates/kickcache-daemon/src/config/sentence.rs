//! Rewrites a parser's message about a line in the words of the configuration file.

/// Example values of keys that need more than a type.
const EXAMPLES: &[(&str, &str)] = &[
    ("control", "\"/run/kickcache/control.sock\""),
    ("metrics", "\"tcp:127.0.0.1:9469\""),
    ("log-format", "\"json\""),
    ("log-level", "\"warn\""),
    ("state", "\"/var/lib/kickcache\""),
    ("user", "\"kickcache\""),
    ("may-open", "[\"/dev/nvme1n1\"]"),
    ("io-engine", "\"io_uring\""),
    ("memory-limit", "\"256M\""),
    ("insecure-tcp", "true"),
    ("tls", "\"require\""),
    ("tls-certificates", "\"/etc/kickcache/tls\""),
    ("tls-verify-peer", "\"on\""),
    ("device", "\"/dev/nvme0n1p4\""),
    ("write-budget", "\"50G/day\""),
    ("endurance", "\"600TBW\""),
    ("name", "\"vm1\""),
    ("origin", "\"/dev/sdb\""),
    ("origin-timeout", "\"2m\""),
    ("mode", "\"write-back\""),
    ("admission", "\"second-touch\""),
    ("sequential-cutoff", "\"auto\""),
    ("dirty-low", "\"30%\""),
    ("dirty-high", "\"50%\""),
    ("dirty-limit", "\"70%\""),
    ("idle-after", "\"500ms\""),
    ("writeback-rate", "\"50M/s\""),
    ("writeback-iops", "200"),
    ("client-bandwidth", "\"100M/s\""),
    ("client-iops", "500"),
    ("client-burst", "\"1s\""),
    ("room-min", "\"20%\""),
    ("room-max", "\"50%\""),
    ("read-only", "true"),
    ("origin-no-flush", "true"),
    ("nbd", "[\"unix:/run/kickcache/vm1.sock\"]"),
    ("allow-client", "[\"vm1\"]"),
    ("vhost-user", "\"/run/kickcache/vm1.vhost\""),
    ("ublk-queues", "2"),
    ("ublk-depth", "64"),
];

/// The defect of a line; `message` is the parser's.
pub(super) fn sentence(message: &str, line: &str) -> String {
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim());
    let example = EXAMPLES.iter().find(|(known, _)| *known == key).map(|(_, example)| example);
    match (message.strip_prefix("invalid type: "), example) {
        (Some(rest), Some(example)) => {
            let found = rest.split_once(", expected ").map_or(rest, |(found, _)| found);
            format!("`{key}` cannot be the {found}; write it as in {key} = {example}")
        }
        // For a choice of words, the parser does not report the word that it found.
        (None, Some(example)) if message.starts_with("wanted ") => {
            format!("`{key}` cannot be {value}; write it as in {key} = {example}")
        }
        _ if message == "duplicate key" => {
            format!("`{key}` is set for the second time; keep one of the two lines")
        }
        _ if message.starts_with("unknown field `volume`") => {
            "a volume belongs to a cache device: write [[cache.volume]], below its [[cache]]".into()
        }
        _ => message.to_owned(),
    }
}
