//! Text and data inside HTML.

use kickcache_units::printable::printable;
use serde::Serialize;

/// A text for elements and attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON that cannot end the script element that holds it: each `<` is escaped.
pub(crate) fn json(figures: &impl Serialize) -> String {
    let text = serde_json::to_string(figures).expect("results hold numbers and texts only");
    printable(&text).replace('<', "\\u003c")
}

pub(crate) fn section(heading: &str, body: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escape(heading))
}

/// A part that the script closes.
pub(crate) fn fold(title: &str, body: &str) -> String {
    details("fold", title, body)
}

/// A part that is open, and can be closed.
pub(crate) fn unfolded(title: &str, body: &str) -> String {
    details("", title, body)
}

fn details(class: &str, title: &str, body: &str) -> String {
    format!("<details class=\"{class}\" open>\n<summary>{}</summary>\n{body}</details>\n", escape(title))
}

pub(crate) fn answer(sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let lines: String = sentences.iter().map(|sentence| format!("<p>{}</p>\n", escape(sentence))).collect();
    format!("<section class=\"answer\">\n{lines}</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_in_text_and_data() {
        assert_eq!(escape("<b>\u{1b}]0;a\u{7}\u{202e}"), "&lt;b&gt;\\u001b]0;a\\u0007\\u202e");
        let data = json(&"<\u{1b}\u{9b}\u{202e}");
        assert_eq!(data, "\"\\u003c\\u001b\\u009b\\u202e\"");
    }
}
