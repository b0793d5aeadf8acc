//! How much room there is.

use std::io;

/// Columns of the terminal, `COLUMNS` before all; `None` where nobody counts them.
pub(crate) fn terminal_width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    told.filter(|columns| *columns > 0).or_else(|| {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    })
}

/// A sentence in lines of at most this many characters, those after the first one indented; longer words stay whole.
pub(super) fn wrap(text: &str, width: Option<usize>) -> String {
    const INDENT: &str = "    ";
    let Some(width) = width else { return text.into() };
    let lead = &text[..text.len() - text.trim_start().len()];
    let (mut wrapped, mut column) = (lead.to_owned(), lead.len());
    let mut is_first = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if is_first {
            is_first = false;
        } else if column + 1 + length > width {
            wrapped += "\n";
            wrapped += INDENT;
            column = INDENT.len();
        } else {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_edge() {
        assert_eq!(wrap("one two three", None), "one two three");
        assert_eq!(wrap("one two three", Some(13)), "one two three");
        assert_eq!(wrap("one two three", Some(12)), "one two\n    three");
        assert_eq!(wrap("  one two", Some(8)), "  one\n    two");
        assert_eq!(wrap("seventeen", Some(4)), "seventeen");
    }
}
