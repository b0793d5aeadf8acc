//! The formats.

pub(crate) mod action;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
mod clouds;
pub(crate) mod csv;
mod devices;
mod fields;
pub(crate) mod iolog;
pub(crate) mod line_parser;
mod msr;
pub(crate) mod recording;
mod spc;

use crate::trace_file::format::action::Action;
use crate::trace_file::format::line_parser::LineParser;
use crate::trace_file::trace_format::Format;

/// The parser of a text format; `None` for binary ones.
pub(crate) fn parser(format: Format, action: Action) -> Option<Box<dyn LineParser>> {
    Some(match format {
        Format::Csv => Box::new(csv::Csv),
        Format::Blkparse => Box::new(blkparse::Blkparse::new(action)),
        Format::Iolog => Box::new(iolog::Iolog::default()),
        Format::Msr => Box::new(msr::Msr::default()),
        Format::Spc => Box::new(spc::Spc::default()),
        Format::Alibaba => Box::new(clouds::Alibaba::default()),
        Format::Tencent => Box::new(clouds::Tencent::default()),
        Format::Kickcache | Format::Blktrace => return None,
    })
}
