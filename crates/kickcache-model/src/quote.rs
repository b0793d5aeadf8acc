//! Input as messages quote it.

/// The most characters of the input that a message quotes.
const CHARS_MAX: usize = 80;

/// The beginning of a text in quotation marks, control characters escaped; dots follow if it is longer.
pub(crate) fn quote(text: &str) -> String {
    format!("{:?}{}", cut(text), dots(text))
}

/// A text for a message, without quotation marks.
pub(crate) fn shorten(text: &str) -> String {
    format!("{}{}", cut(text).escape_debug(), dots(text))
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

fn dots(text: &str) -> &'static str {
    if cut(text).len() < text.len() { "..." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_cut_and_control_characters_are_escaped() {
        assert_eq!(quote("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(quote(&"ä".repeat(80)), format!("{:?}", "ä".repeat(80)));
        assert_eq!(quote(&"ä".repeat(81)), format!("{:?}...", "ä".repeat(80)));
        assert_eq!(shorten(&format!("\t{}", "b".repeat(80))), format!("\\t{}...", "b".repeat(79)));
    }
}
