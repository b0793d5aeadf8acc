//! The data that options carry.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::wire::{
    CONTEXT_ALLOCATION, CONTEXT_NAMESPACE, QUERY_COUNT_MAX, Reader, STRING_MAX, info, opt, rep,
};

/// Why an option is refused: the type of the reply and a text for the client's user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) reply: u32,
    pub(super) text: &'static str,
}

impl Refusal {
    pub(super) const fn new(reply: u32, text: &'static str) -> Refusal {
        Refusal { reply, text }
    }

    const fn malformed() -> Refusal {
        Refusal::new(rep::ERR_INVALID, "the option's data does not have the length its fields add up to")
    }
}

/// INFO and GO: an export and the properties that the client requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InfoQuery<'a> {
    pub(super) name: &'a str,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
}

impl<'a> InfoQuery<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<InfoQuery<'a>, Refusal> {
        let mut reader = Reader::new(data);
        let name = read_string(&mut reader)?;
        let count = reader.u16().ok_or(Refusal::malformed())?;
        let mut query = InfoQuery { name, wants_name: false, wants_description: false };
        for _ in 0..count {
            match reader.u16().ok_or(Refusal::malformed())? {
                info::NAME => query.wants_name = true,
                info::DESCRIPTION => query.wants_description = true,
                _ => {}
            }
        }
        check_end(reader)?;
        Ok(query)
    }
}

/// LIST_META_CONTEXT and SET_META_CONTEXT: an export, and whether base:allocation is among the contexts that the client
/// lists or selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ContextQuery<'a> {
    pub(super) name: &'a str,
    pub(super) allocation: bool,
}

impl<'a> ContextQuery<'a> {
    pub(super) fn parse(option: u32, data: &'a [u8]) -> Result<ContextQuery<'a>, Refusal> {
        let listing = option == opt::LIST_META_CONTEXT;
        let mut reader = Reader::new(data);
        let name = read_string(&mut reader)?;
        let count = reader.u32().ok_or(Refusal::malformed())?;
        if count > QUERY_COUNT_MAX {
            return Err(Refusal::new(rep::ERR_TOO_BIG, "more than 64 metadata queries"));
        }
        let mut query = ContextQuery { name, allocation: listing && count == 0 };
        for _ in 0..count {
            let text = read_string(&mut reader)?;
            query.allocation |= text == CONTEXT_ALLOCATION || (listing && text == CONTEXT_NAMESPACE);
        }
        check_end(reader)?;
        Ok(query)
    }
}

pub(super) fn parse_name(data: &[u8]) -> Result<&str, Refusal> {
    check_string(data)
}

pub(super) fn check_empty(data: &[u8]) -> Result<(), Refusal> {
    check_end(Reader::new(data))
}

fn check_end(reader: Reader<'_>) -> Result<(), Refusal> {
    if reader.is_empty() { Ok(()) } else { Err(Refusal::malformed()) }
}

fn read_string<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Refusal> {
    check_string(reader.counted_bytes().ok_or(Refusal::malformed())?)
}

fn check_string(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > STRING_MAX {
        return Err(Refusal::new(rep::ERR_TOO_BIG, "a string is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Refusal::new(rep::ERR_INVALID, "a string is not UTF-8, or contains a NUL")),
    }
}
