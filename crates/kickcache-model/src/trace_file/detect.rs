//! Detection of a trace's format from the beginning of the file.

use crate::trace_file::format::action::Action;
use crate::trace_file::format::blkparse::action_of;
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::format::{blktrace, csv, parser, recording};
use crate::trace_file::lines::text;
use crate::trace_file::trace_format::Format;

/// The number of lines, from the first, that are tested to find the format of a text.
const LINES: usize = 20;

pub(crate) fn detect(head: &[u8]) -> Option<Format> {
    if recording::is_recording(head) {
        return Some(Format::Kickcache);
    }
    if blktrace::is_blktrace(head) {
        return Some(Format::Blktrace);
    }
    let text = &*text(head);
    if text.starts_with("fio version ") {
        return Some(Format::Iolog);
    }
    if text.starts_with(csv::HEADER) {
        return Some(Format::Csv);
    }
    let candidates =
        [Format::Csv, Format::Msr, Format::Spc, Format::Alibaba, Format::Tencent, Format::Blkparse];
    candidates.into_iter().find(|format| fits(*format, text, action(*format, head)))
}

/// The earliest event in the life of an access that the beginning of the file contains; [`Action::Queued`] if
/// there is none.
pub(crate) fn action(format: Format, head: &[u8]) -> Action {
    let is_noted = |action: &Action| match format {
        Format::Blktrace => blktrace::has_action(head, *action),
        Format::Blkparse => text(head).lines().any(|line| action_of(line) == Some(action.letter())),
        Format::Kickcache
        | Format::Csv
        | Format::Iolog
        | Format::Msr
        | Format::Spc
        | Format::Alibaba
        | Format::Tencent => true,
    };
    Action::ALL.into_iter().find(is_noted).unwrap_or(Action::Queued)
}

/// Whether the first lines have more records of the format than faulty lines.
fn fits(format: Format, text: &str, action: Action) -> bool {
    let Some(mut parser) = parser(format, action) else { return false };
    let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
    let (mut good, mut bad) = (0, 0);
    for line in whole.lines().take(LINES) {
        match says(format, parser.as_mut(), line) {
            Ok(Parsed::Record(_)) => good += 1,
            Ok(Parsed::Nothing | Parsed::Header) => {}
            Err(_) => bad += 1,
        }
    }
    good > bad
}

fn says(format: Format, parser: &mut dyn LineParser, line: &str) -> Result<Parsed, String> {
    let parsed = parser.parse(line.trim_end())?;
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_word = |index: usize, words: &[&str]| fields.get(index).is_some_and(|field| words.contains(field));
    let Parsed::Record(_) = parsed else {
        return Ok(parsed);
    };
    let looks_right = match format {
        Format::Csv => fields.len() == 4,
        Format::Msr => fields.len() == 7 && is_word(3, &["Read", "Write"]),
        Format::Spc => is_word(3, &["r", "R", "w", "W"]) && fields.get(4).is_some_and(|at| at.contains('.')),
        Format::Alibaba => fields.len() == 5 && is_word(1, &["R", "W"]),
        Format::Tencent => fields.len() == 5,
        Format::Kickcache | Format::Blkparse | Format::Blktrace | Format::Iolog => true,
    };
    if looks_right { Ok(parsed) } else { Err("another format".into()) }
}
