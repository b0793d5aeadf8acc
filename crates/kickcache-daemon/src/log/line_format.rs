//! The format of the log's lines.

use std::fmt;

use kickcache_units::printable::printable;
use kickcache_units::show_count;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::log::entry::{Entry, timestamp};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineFormat {
    /// Sentences, each with its time.
    Timed,
    /// Sentences for a reader that has times of its own.
    Untimed,
    Json,
    Journal,
}

impl LineFormat {
    pub(super) fn show(self, entry: &Entry) -> String {
        let line = match self {
            LineFormat::Timed => format!("{} {:>5} {}\n", timestamp(), entry.level.as_str(), entry.message),
            LineFormat::Untimed => format!("{:>5} {}\n", entry.level.as_str(), entry.message),
            LineFormat::Json => entry.json(),
            LineFormat::Journal => entry.journal(),
        };
        printable(&line).into()
    }

    /// The line that reports lost lines.
    pub(super) fn gap(self, lost: u64) -> String {
        let lines = if lost == 1 { "line of the log was" } else { "lines of the log were" };
        let message = format!("{} {lines} lost", show_count(lost));
        self.show(&Entry { level: Level::WARN, fields: vec![("event", "lines_lost".into())], message })
    }
}

pub(super) struct Encoded(pub(super) LineFormat);

impl<S, N> FormatEvent<S, N> for Encoded
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        out.write_str(&self.0.show(&Entry::of(event)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;
    use crate::log::logged::logged_as;

    fn an_error() {
        let volume = Some("vm\"1");
        tracing::error!(event = "device_error", device = "/dev/a", volume, "read failed: {}\n\\", 5);
        tracing::warn!(event = "device_answers", device = %"/dev/b", volume = None::<&str>, "it answers");
    }

    #[test]
    fn a_line_of_json_has_the_fields_of_its_entry() {
        let text = logged_as(LineFormat::Json, an_error);
        let lines: Vec<Map<String, Value>> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [first, second] = lines.as_slice() else { panic!("{text}") };
        let time = first["time"].as_str().unwrap();
        assert!(time.len() > 20 && time.ends_with('Z'), "{time}");
        assert_eq!((&first["level"], &first["event"]), (&"error".into(), &"device_error".into()));
        assert_eq!((&first["device"], &first["volume"]), (&"/dev/a".into(), &"vm\"1".into()));
        assert_eq!(first["message"], "read failed: 5\n\\");
        assert_eq!((&second["level"], &second["device"]), (&"warn".into(), &"/dev/b".into()));
        assert!(!second.contains_key("volume"));
    }

    #[test]
    fn control_characters_reach_no_line() {
        for format in [LineFormat::Json, LineFormat::Journal] {
            let text = logged_as(format, || {
                tracing::warn!(event = "x", device = "/dev/\u{1b}]0;a\u{7}", "b\u{9b}2J\nKICKCACHE_EVENT=y");
            });
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            assert!(!text.lines().any(|line| line == "KICKCACHE_EVENT=y"), "{text}");
        }
        let text = logged_as(LineFormat::Json, || tracing::info!(event = "x", "b\u{9b}\u{7f}"));
        let read: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(read["message"], "b\u{9b}\u{7f}");
    }

    #[test]
    fn the_journal_gets_a_line_a_field() {
        let text = logged_as(LineFormat::Journal, an_error);
        let expected = "PRIORITY=3\nSYSLOG_IDENTIFIER=kickcache\nKICKCACHE_EVENT=device_error\nKICKCACHE_DEVICE=/dev/a\n\
                        KICKCACHE_VOLUME=vm\"1\nMESSAGE=read failed: 5 \\\n\
                        PRIORITY=4\nSYSLOG_IDENTIFIER=kickcache\nKICKCACHE_EVENT=device_answers\nKICKCACHE_DEVICE=/dev/b\n\
                        MESSAGE=it answers\n";
        assert_eq!(text, expected);
        let long =
            logged_as(LineFormat::Journal, || tracing::info!(event = "a", "{}", "\u{e4}".repeat(9_000)));
        assert!(long.len() < 9_000 && long.ends_with("\u{e4}\n"), "{} bytes", long.len());
    }
}
