//! The size of the terminal, and text that fits.

use std::io;

/// Columns of the terminal; `COLUMNS` has precedence. `None` if the width is unknown.
pub fn terminal_width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    told.filter(|columns| *columns > 0).or_else(|| {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    })
}

/// Rows of the terminal; `LINES` has precedence. `None` if the height is unknown.
pub fn terminal_height() -> Option<usize> {
    let told = std::env::var("LINES").ok().and_then(|lines| lines.trim().parse().ok());
    told.filter(|lines| *lines > 0).or_else(|| {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_row)).filter(|lines| *lines > 0)
    })
}

/// The first lines of a page, as many as a terminal shows without scrolling; its last row is for the cursor.
/// The whole page if the height is unknown.
pub fn first_lines(page: &str, height: Option<usize>, width: Option<usize>) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let rows = |line: &&str| width.map_or(1, |width| visible_length(line).div_ceil(width).max(1));
    let Some(room) = height.map(|height| height.saturating_sub(1)) else { return page.into() };
    if lines.iter().map(rows).sum::<usize>() <= room {
        return page.into();
    }
    let mut left = room.saturating_sub(1);
    let fits = |line: &&&str| {
        let enough = left.checked_sub(rows(line));
        enough.inspect(|rest| left = *rest).is_some()
    };
    let shown = lines.iter().take_while(fits).count();
    let mut first: String = lines[..shown].iter().flat_map(|line| [line, "\n"]).collect();
    first += &format!("({} more lines: `status` without --watch)\n", lines.len() - shown);
    first
}

fn visible_length(line: &str) -> usize {
    let mut rest = line.split("\x1b[");
    let first = rest.next().unwrap_or_default().chars().count();
    first
        + rest.map(|part| part.split_once('m').map_or(part, |(_, text)| text).chars().count()).sum::<usize>()
}

/// Breaks a sentence between words where a line would be longer than `width` characters.
pub fn wrap(text: &str, width: Option<usize>) -> String {
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
    fn a_page_is_cut_where_its_terminal_ends() {
        let page = "head\n\x1b[31m12345678\x1b[0m\nthree\nfour\n";
        for (height, width, wanted) in [
            (None, None, page),
            (Some(5), Some(8), page),
            (Some(4), Some(8), "head\n\x1b[31m12345678\x1b[0m\n(2 more lines: `status` without --watch)\n"),
            (Some(5), Some(7), "head\n\x1b[31m12345678\x1b[0m\n(2 more lines: `status` without --watch)\n"),
            (Some(1), Some(8), "(4 more lines: `status` without --watch)\n"),
        ] {
            assert_eq!(first_lines(page, height, width), wanted, "{height:?} {width:?}");
        }
    }

    #[test]
    fn lines_end_before_the_edge() {
        assert_eq!(wrap("one two three", None), "one two three");
        assert_eq!(wrap("one two three", Some(13)), "one two three");
        assert_eq!(wrap("one two three", Some(12)), "one two\n    three");
        assert_eq!(wrap("  one two", Some(8)), "  one\n    two");
        assert_eq!(wrap("seventeen", Some(4)), "seventeen");
    }
}
