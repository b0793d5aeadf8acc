//! Text for terminals, logs and pages: characters that would control the reader's terminal are escaped.
//!
//! The escapes have the form of JSON (`\u001b`), so that JSON strings keep their values.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is escaped in text of several lines. These are control characters other than line feed and tab,
/// and characters that change the direction of a line or end it (Unicode UAX #9; U+2028, U+2029).
pub fn is_escaped(c: char) -> bool {
    let is_layout = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_layout || c.is_control() && c != '\n' && c != '\t'
}

/// Text of several lines, escaped; line feeds and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_escaped)
}

/// Text within a line: line breaks and tabs are escaped as well.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_escaped(c) || c == '\n' || c == '\t')
}

pub fn push_escaped(text: &mut String, c: char) {
    match c {
        '\n' => text.push_str("\\n"),
        '\t' => text.push_str("\\t"),
        '\r' => text.push_str("\\r"),
        // Writing to a string cannot fail.
        c => drop(write!(text, "\\u{:04x}", u32::from(c))),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => push_escaped(&mut shown, c),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_text_stays() {
        assert_eq!(printable("\u{1b}]52;c;\u{7}"), "\\u001b]52;c;\\u0007");
        assert_eq!(printable("one\n\ttwo\r\u{9b}1m\u{7f}"), "one\n\ttwo\\r\\u009b1m\\u007f");
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{2028}"), "a\\u202eb\\u2066c\\u2028");
        assert!(matches!(printable("größer 日本 \\"), Cow::Borrowed("größer 日本 \\")));
    }

    #[test]
    fn a_name_stays_within_its_line() {
        assert_eq!(printable_line("a\nb\tc"), "a\\nb\\tc");
        assert!(matches!(printable_line("a b"), Cow::Borrowed("a b")));
    }
}
