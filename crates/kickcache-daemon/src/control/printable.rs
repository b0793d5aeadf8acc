//! Words of a daemon for a terminal: with `--user` it may be somebody else's by now, and the terminal is root's.

use serde_json::Value;

/// Escapes control characters in all texts; lines and tabs stay.
pub(super) fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().any(is_escaped) => {
            let shown = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
            *text = text.chars().map(shown).collect();
        }
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(fields) => fields.values_mut().for_each(make_printable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_escaped(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_daemon_cannot_steer_the_terminal() {
        let mut value =
            json!({"names": ["\u{1b}]52;c;\u{7}", "größer"], "why": "one\n\ttwo\u{9b}1m", "count": 3});
        make_printable(&mut value);
        let wanted =
            json!({"names": ["\\u{1b}]52;c;\\u{7}", "größer"], "why": "one\n\ttwo\\u{9b}1m", "count": 3});
        assert_eq!(value, wanted);
    }
}
