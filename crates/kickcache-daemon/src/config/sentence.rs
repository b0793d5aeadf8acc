//! Rewrites a parser's message about a line in the words of the configuration file.

/// Example values of keys, for messages.
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
    if let Some(found) = wrong_value(message) {
        return found.sentence(key, value, example.copied());
    }
    if let Some(Unknown { word, known }) = unknown(message, "field") {
        return match word {
            "volume" => {
                "a volume belongs to a cache device: write [[cache.volume]], below its [[cache]]".into()
            }
            _ => format!("there is no key `{word}` here; there is {known}"),
        };
    }
    if let Some(Unknown { word, known }) = unknown(message, "variant") {
        return format!("`{key}` cannot be `{word}`; possible values: {known}");
    }
    match (message.strip_prefix("missing field "), example) {
        (Some(field), _) => format!("the key {field} is missing"),
        // For a choice of words, the parser does not report the word that it found.
        (None, Some(example)) if message.starts_with("wanted ") => {
            format!("`{key}` cannot be {value}; write it as in {key} = {example}")
        }
        _ if value.is_empty() && message.starts_with("string values must be quoted") => {
            format!("`{key}` has no value")
        }
        (None, Some(example)) if message.starts_with("string values must be quoted") => {
            format!("the value of `{key}` needs quotes; write it as in {key} = {example}")
        }
        _ if message == "duplicate key" => {
            format!("`{key}` is set for the second time; keep one of the two lines")
        }
        _ => message.to_owned(),
    }
}

struct WrongValue<'a> {
    found: &'a str,
    expected: &'a str,
}

fn wrong_value(message: &str) -> Option<WrongValue<'_>> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    Some(WrongValue { found, expected })
}

impl WrongValue<'_> {
    fn sentence(&self, key: &str, value: &str, example: Option<&str>) -> String {
        let WrongValue { found, expected } = self;
        match example {
            Some(example) => format!("`{key}` cannot be the {found}; write it as in {key} = {example}"),
            None if value.is_empty() => format!("write {expected}"),
            None => format!("`{key}` cannot be the {found}; write {expected}"),
        }
    }
}

struct Unknown<'a> {
    word: &'a str,
    known: String,
}

fn unknown<'a>(message: &'a str, kind: &str) -> Option<Unknown<'a>> {
    let rest = message.strip_prefix("unknown ")?.strip_prefix(kind)?.strip_prefix(" `")?;
    let (word, expected) = rest.split_once("`, expected ")?;
    let known = expected.strip_prefix("one of ").unwrap_or(expected);
    Some(Unknown { word, known: known.replace('`', "") })
}
