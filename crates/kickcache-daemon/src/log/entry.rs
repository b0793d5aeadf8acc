//! An entry of the log with its fields, as JSON and as the journal takes it.

use std::fmt::Debug;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The most bytes of a sentence or value for the journal: an entry must fit one datagram.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) level: Level,
    /// Names and values of the fields.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) message: String,
}

impl Entry {
    pub(super) fn of(event: &Event<'_>) -> Entry {
        let mut entry =
            Entry { level: *event.metadata().level(), fields: Vec::new(), message: String::new() };
        event.record(&mut entry);
        entry
    }

    pub(super) fn json(&self) -> String {
        let first = [("time", timestamp()), ("level", self.level.as_str().to_lowercase())];
        let fields = first.into_iter().chain(self.fields.iter().cloned());
        let mut object: Map<String, Value> =
            fields.map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
        object.insert("message".into(), Value::String(self.message.clone()));
        format!("{}\n", Value::Object(object))
    }

    pub(super) fn journal(&self) -> String {
        let priority = match self.level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        let mut text = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=kickcache\n");
        for (name, value) in &self.fields {
            text += &format!("KICKCACHE_{}={}\n", name.to_uppercase(), one_line(value));
        }
        text + &format!("MESSAGE={}\n", one_line(&self.message))
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.push((name, value.into())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

pub(super) fn timestamp() -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// A value on one line, cut at [`MESSAGE_BYTES_MAX`].
fn one_line(text: &str) -> String {
    let end = text.floor_char_boundary(MESSAGE_BYTES_MAX);
    text[..end].replace('\n', " ")
}
