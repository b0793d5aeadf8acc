//! Input as messages quote it.

/// Characters of the input that a message quotes.
const CHARS_MAX: usize = 80;

/// The beginning of a text in quotation marks, control characters escaped; dots behind it if it is longer.
pub(crate) fn quote(text: &str) -> String {
    let cut = text.char_indices().nth(CHARS_MAX).map_or(text, |(end, _)| &text[..end]);
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("{cut:?}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_cut_and_control_characters_are_escaped() {
        assert_eq!(quote("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(quote(&"ä".repeat(80)), format!("{:?}", "ä".repeat(80)));
        assert_eq!(quote(&"ä".repeat(81)), format!("{:?}...", "ä".repeat(80)));
    }
}
