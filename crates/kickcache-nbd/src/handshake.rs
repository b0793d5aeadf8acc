//! The handshake: from the greeting to the choice of an export.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::Arc;

use super::command::CloseReason;
use super::export::ExportInfo;
use super::option::{ContextQuery, InfoQuery, Refusal, check_empty, parse_name};
use super::reply::HeaderForm;
use super::tls::{Access, TlsPolicy};
use super::transmission::Transmission;
use super::wire::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, BLOCK_SIZE_PREFERRED, CONTEXT_ALLOCATION, CONTEXT_ALLOCATION_ID,
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC_OPTION, MAGIC_OPTION_REPLY, MAGIC_SERVER, OPTION_COUNT_MAX,
    OPTION_DATA_MAX, OPTION_HEADER_BYTES, OUTPUT_MAX, Put, Reader, STRING_MAX, export_flag, info, length_u32,
    opt, rep,
};
use crate::decoded_prefix::DecodedPrefix;

#[derive(Debug)]
enum HandshakePhase {
    ClientFlags,
    OptionHeader,
    OptionData(PartialOption),
    /// TLS records, which the owner of the stream handles.
    StartTls,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Channel {
    Clear,
    Secured,
}

#[derive(Debug)]
struct PartialOption {
    option: u32,
    length: usize,
    gathered: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum Progress {
    NeedMore,
    Continue,
    Enter(Transmission),
    StartTls,
    Close(CloseReason),
}

#[derive(Debug)]
pub(super) struct Handshake {
    exports: Arc<[ExportInfo]>,
    policy: TlsPolicy,
    channel: Channel,
    /// The access to each export, by its index; exports without an entry are allowed.
    access: Vec<Access>,
    /// The index of the denied export that the client requested last, until [`Handshake::take_denied`].
    denied: Cell<Option<usize>>,
    /// The unknown export that the client requested last, other than by EXPORT_NAME, until [`Handshake::take_unknown`].
    unknown: RefCell<Option<String>>,
    stage: HandshakePhase,
    fixed_newstyle: bool,
    no_zeroes: bool,
    form: HeaderForm,
    /// The export with the client's last selection of base:allocation, if that agreement still holds.
    context: Option<usize>,
    option_count: u32,
}

#[derive(Clone, Copy)]
struct NamedExport<'a> {
    index: usize,
    export: &'a ExportInfo,
    access: Access,
}

impl Handshake {
    pub(super) fn new(exports: Arc<[ExportInfo]>, policy: TlsPolicy, output: &mut Vec<u8>) -> Handshake {
        output.put_u64(MAGIC_SERVER);
        output.put_u64(MAGIC_OPTION);
        output.put_u16(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        Handshake {
            exports,
            policy,
            channel: Channel::Clear,
            access: Vec::new(),
            denied: Cell::new(None),
            unknown: RefCell::new(None),
            stage: HandshakePhase::ClientFlags,
            fixed_newstyle: false,
            no_zeroes: false,
            form: HeaderForm::Simple,
            context: None,
            option_count: 0,
        }
    }

    /// The stream is encrypted by TLS from here on. All agreements of earlier options are dropped, because an attacker
    /// may have sent them in the clear.
    pub(super) fn secure(&mut self, access: &[Access]) {
        assert!(
            matches!(self.stage, HandshakePhase::StartTls),
            "only a client that requested TLS is secured"
        );
        self.stage = HandshakePhase::OptionHeader;
        self.channel = Channel::Secured;
        self.access = access.to_vec();
        self.form = HeaderForm::Simple;
        self.context = None;
    }

    pub(super) fn take_denied(&self) -> Option<usize> {
        self.denied.take()
    }

    pub(super) fn take_unknown(&self) -> Option<String> {
        self.unknown.take()
    }

    pub(super) fn decode(&mut self, input: &[u8], output: &mut Vec<u8>) -> DecodedPrefix<Progress> {
        match mem::replace(&mut self.stage, HandshakePhase::OptionHeader) {
            HandshakePhase::ClientFlags => self.decode_client_flags(input),
            HandshakePhase::OptionHeader => self.decode_option_header(input),
            HandshakePhase::OptionData(partial) => self.decode_option_data(partial, input, output),
            HandshakePhase::StartTls => {
                self.stage = HandshakePhase::StartTls;
                DecodedPrefix::new(0, Progress::StartTls)
            }
        }
    }

    fn decode_client_flags(&mut self, input: &[u8]) -> DecodedPrefix<Progress> {
        let Some(flags) = Reader::new(input).u32() else {
            self.stage = HandshakePhase::ClientFlags;
            return DecodedPrefix::new(0, Progress::NeedMore);
        };
        let fixed = u32::from(FLAG_FIXED_NEWSTYLE);
        let no_zeroes = u32::from(FLAG_NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return DecodedPrefix::new(4, Progress::Close(CloseReason::ClientFlags(flags)));
        }
        self.fixed_newstyle = flags & fixed != 0;
        self.no_zeroes = flags & no_zeroes != 0;
        DecodedPrefix::new(4, Progress::Continue)
    }

    fn decode_option_header(&mut self, input: &[u8]) -> DecodedPrefix<Progress> {
        let mut reader = Reader::new(input);
        let (Some(magic), Some(option), Some(length)) = (reader.u64(), reader.u32(), reader.u32()) else {
            return DecodedPrefix::new(0, Progress::NeedMore);
        };
        if let Err(reason) = self.check_option_header(magic, option, length) {
            return DecodedPrefix::new(OPTION_HEADER_BYTES, Progress::Close(reason));
        }
        let length = usize::try_from(length).expect("checked against OPTION_DATA_MAX");
        self.stage = HandshakePhase::OptionData(PartialOption { option, length, gathered: Vec::new() });
        DecodedPrefix::new(OPTION_HEADER_BYTES, Progress::Continue)
    }

    fn check_option_header(&mut self, magic: u64, option: u32, length: u32) -> Result<(), CloseReason> {
        self.option_count = self.option_count.saturating_add(1);
        if magic != MAGIC_OPTION {
            Err(CloseReason::OptionMagic(magic))
        } else if length > OPTION_DATA_MAX {
            Err(CloseReason::OptionLength { option, length })
        } else if self.option_count > OPTION_COUNT_MAX {
            Err(CloseReason::OptionCount)
        } else if !self.fixed_newstyle && option != opt::EXPORT_NAME {
            Err(CloseReason::NotFixedNewstyle(option))
        } else {
            Ok(())
        }
    }

    fn decode_option_data(
        &mut self,
        mut partial: PartialOption,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> DecodedPrefix<Progress> {
        let missing = partial.length.saturating_sub(partial.gathered.len());
        let Some((data, behind)) = input.split_at_checked(missing) else {
            partial.gathered.extend_from_slice(input);
            self.stage = HandshakePhase::OptionData(partial);
            return DecodedPrefix::new(input.len(), Progress::NeedMore);
        };
        if output.len() > OUTPUT_MAX {
            return DecodedPrefix::new(missing, Progress::Close(CloseReason::OutputFlood));
        }
        // An attacker on the network may have inserted these bytes, and they would count as
        // received through TLS.
        if partial.option == opt::STARTTLS && self.can_start_tls() && !behind.is_empty() {
            return DecodedPrefix::new(missing, Progress::Close(CloseReason::BytesBehindStartTls));
        }
        if partial.gathered.is_empty() {
            return DecodedPrefix::new(missing, self.handle_option(partial.option, data, output));
        }
        partial.gathered.extend_from_slice(data);
        DecodedPrefix::new(missing, self.handle_option(partial.option, &partial.gathered, output))
    }

    fn handle_option(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Progress {
        if option == opt::EXPORT_NAME {
            return self.on_export_name(data, output);
        }
        if self.needs_tls() && option != opt::STARTTLS && option != opt::ABORT {
            put_option_reply(output, option, rep::ERR_TLS_REQD, &[b"this server wants TLS first"]);
            return Progress::Continue;
        }
        match self.on_option(option, data, output) {
            Ok(progress) => progress,
            Err(refusal) => {
                put_option_reply(output, option, refusal.reply, &[refusal.text.as_bytes()]);
                Progress::Continue
            }
        }
    }

    fn on_option(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Result<Progress, Refusal> {
        let mut progress = Progress::Continue;
        match option {
            opt::ABORT => progress = Progress::Close(CloseReason::Abort),
            opt::LIST => self.on_list(data, output)?,
            opt::INFO => _ = self.on_info(option, data, output)?,
            opt::GO => progress = Progress::Enter(self.on_info(option, data, output)?),
            opt::STRUCTURED_REPLY => self.on_structured_reply(data)?,
            opt::EXTENDED_HEADERS => self.on_extended_headers(data)?,
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => self.on_meta_context(option, data, output)?,
            opt::STARTTLS => {
                self.on_start_tls(data)?;
                progress = Progress::StartTls;
            }
            _ => return Err(Refusal::new(rep::ERR_UNSUP, "the server does not know this option")),
        }
        put_option_reply(output, option, rep::ACK, &[]);
        Ok(progress)
    }

    fn on_start_tls(&mut self, data: &[u8]) -> Result<(), Refusal> {
        check_empty(data)?;
        if self.policy == TlsPolicy::Off {
            return Err(Refusal::new(rep::ERR_POLICY, "TLS is not set up on this server"));
        }
        if !self.can_start_tls() {
            return Err(Refusal::new(rep::ERR_INVALID, "TLS is in use already"));
        }
        self.stage = HandshakePhase::StartTls;
        Ok(())
    }

    fn can_start_tls(&self) -> bool {
        self.policy != TlsPolicy::Off && self.channel == Channel::Clear
    }

    fn needs_tls(&self) -> bool {
        self.policy == TlsPolicy::Require && self.channel == Channel::Clear
    }

    fn on_export_name(&mut self, data: &[u8], output: &mut Vec<u8>) -> Progress {
        if self.needs_tls() {
            return Progress::Close(CloseReason::ExportNameWithoutTls);
        }
        if self.form == HeaderForm::Extended {
            return Progress::Close(CloseReason::ExportNameAfterExtendedHeaders);
        }
        let Some(found) = parse_name(data).ok().and_then(|name| self.find(name)) else {
            return Progress::Close(CloseReason::UnknownExport);
        };
        if found.access == Access::Denied {
            self.denied.set(Some(found.index));
            return Progress::Close(CloseReason::DeniedExport);
        }
        output.put_u64(found.export.size);
        output.put_u16(self.export_flags(found.export));
        if !self.no_zeroes {
            output.put(&[0; 124]);
        }
        Progress::Enter(self.transmission(found))
    }

    fn on_list(&self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        check_empty(data)?;
        for NamedExport { export, .. } in self.found().filter(|found| found.access == Access::Allowed) {
            let length = length_u32(export.name.len()).to_be_bytes();
            let parts = [&length, export.name.as_bytes(), bounded(&export.description)];
            put_option_reply(output, opt::LIST, rep::SERVER, &parts);
        }
        Ok(())
    }

    fn on_info(&self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Result<Transmission, Refusal> {
        let query = InfoQuery::parse(data)?;
        let found = self.find_or_refuse(query.name)?;
        let export = found.export;
        let size = export.size.to_be_bytes();
        let flags = self.export_flags(export).to_be_bytes();
        put_info(output, option, info::EXPORT, &[&size, &flags]);
        let sizes = [BLOCK_SIZE_MIN, BLOCK_SIZE_PREFERRED, BLOCK_SIZE_MAX].map(u32::to_be_bytes);
        put_info(output, option, info::BLOCK_SIZE, &[sizes.as_flattened()]);
        if query.wants_name {
            put_info(output, option, info::NAME, &[export.name.as_bytes()]);
        }
        if query.wants_description && !export.description.is_empty() {
            put_info(output, option, info::DESCRIPTION, &[bounded(&export.description)]);
        }
        Ok(self.transmission(found))
    }

    fn on_structured_reply(&mut self, data: &[u8]) -> Result<(), Refusal> {
        check_empty(data)?;
        if self.form == HeaderForm::Extended {
            return Err(Refusal::new(rep::ERR_EXT_HEADER_REQD, "extended headers are agreed on already"));
        }
        self.form = HeaderForm::Structured;
        Ok(())
    }

    fn on_extended_headers(&mut self, data: &[u8]) -> Result<(), Refusal> {
        check_empty(data)?;
        self.form = HeaderForm::Extended;
        self.context = None;
        Ok(())
    }

    fn on_meta_context(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        let setting = option == opt::SET_META_CONTEXT;
        if setting {
            self.context = None;
        }
        if self.form == HeaderForm::Simple {
            return Err(Refusal::new(rep::ERR_INVALID, "metadata contexts need structured replies first"));
        }
        let query = ContextQuery::parse(option, data)?;
        let index = self.find_or_refuse(query.name)?.index;
        if !query.allocation {
            return Ok(());
        }
        let mut id = 0;
        if setting {
            self.context = Some(index);
            id = CONTEXT_ALLOCATION_ID;
        }
        let parts = [&id.to_be_bytes(), CONTEXT_ALLOCATION.as_bytes()];
        put_option_reply(output, option, rep::META_CONTEXT, &parts);
        Ok(())
    }

    /// The export with that name; the empty name selects the default, if no export has the empty name.
    fn find(&self, name: &str) -> Option<NamedExport<'_>> {
        let mut exports = self.found();
        let named = exports.clone().find(|found| found.export.name == name);
        named.or_else(|| exports.find(|found| name.is_empty() && found.export.is_default))
    }

    fn find_or_refuse(&self, name: &str) -> Result<NamedExport<'_>, Refusal> {
        let Some(found) = self.find(name) else {
            self.unknown.replace(Some(name.to_owned()));
            return Err(Refusal::new(rep::ERR_UNKNOWN, "the server has no export of this name"));
        };
        if found.access == Access::Denied {
            self.denied.set(Some(found.index));
            return Err(Refusal::new(rep::ERR_POLICY, "the export is not for the name in your certificate"));
        }
        Ok(found)
    }

    fn found(&self) -> impl Iterator<Item = NamedExport<'_>> + Clone {
        self.exports.iter().enumerate().map(|(index, export)| {
            let access = self.access.get(index).copied().unwrap_or(Access::Allowed);
            NamedExport { index, export, access }
        })
    }

    fn export_flags(&self, export: &ExportInfo) -> u16 {
        let mut flags = export_flag::HAS_FLAGS
            | export_flag::FLUSH
            | export_flag::FUA
            | export_flag::MULTI_CONN
            | export_flag::CACHE;
        if export.read_only {
            flags |= export_flag::READ_ONLY;
        } else {
            flags |= export_flag::TRIM | export_flag::WRITE_ZEROES | export_flag::FAST_ZERO;
        }
        if export.rotational {
            flags |= export_flag::ROTATIONAL;
        }
        if self.form != HeaderForm::Simple {
            flags |= export_flag::DF;
        }
        flags
    }

    fn transmission(&self, NamedExport { index, export, .. }: NamedExport<'_>) -> Transmission {
        Transmission {
            form: self.form,
            export: index,
            size: export.size,
            read_only: export.read_only,
            allocation: self.context == Some(index),
        }
    }
}

/// The description, cut at the end of a character to the length that a string of the protocol may have.
fn bounded(description: &str) -> &[u8] {
    let end = (0..=STRING_MAX).rev().find(|&end| description.is_char_boundary(end));
    end.and_then(|end| description.as_bytes().get(..end)).unwrap_or_default()
}

fn put_option_reply(output: &mut Vec<u8>, option: u32, reply: u32, parts: &[&[u8]]) {
    output.put_u64(MAGIC_OPTION_REPLY);
    output.put_u32(option);
    output.put_u32(reply);
    output.put_u32(length_u32(parts.iter().map(|part| part.len()).sum()));
    for part in parts {
        output.put(part);
    }
}

fn put_info(output: &mut Vec<u8>, option: u32, item: u16, parts: &[&[u8]]) {
    let data = [&item.to_be_bytes(), parts.concat().as_slice()].concat();
    put_option_reply(output, option, rep::INFO, &[&data]);
}
