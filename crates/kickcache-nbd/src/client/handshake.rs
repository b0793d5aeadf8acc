//! The client's side of the handshake.

use kickcache_tls::client::ClientTls;

use super::error::ClientError;
use super::options::ConnectOptions;
use super::remote_export::RemoteExport;
use super::server_text::server_text;
use super::stream::Stream;
use super::timed_stream::{TimeLimit, TimedStream};
use super::tls::Tls;
use super::tls_handshake::agree_on_keys;
use crate::wire::{
    CONTEXT_ALLOCATION, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC_OPTION, MAGIC_OPTION_REPLY, MAGIC_SERVER,
    OPTION_DATA_MAX, Put, Reader, info, length_u32, opt, rep,
};

pub(super) fn negotiate(stream: &mut Stream, options: &ConnectOptions) -> Result<RemoteExport, ClientError> {
    let limit = TimeLimit::begin(stream, options.timeout)?;
    greet(&limit.over(stream))?;
    if let Some(tls) = &options.tls {
        let secured = start_tls(&limit.over(stream), tls)?;
        stream.secure(secured);
    }
    let export = agree(&limit.over(stream), options)?;
    limit.finish(stream)?;
    Ok(export)
}

fn start_tls(stream: &TimedStream<'_>, tls: &ClientTls) -> Result<Tls, ClientError> {
    send_option(stream, opt::STARTTLS, &[])?;
    let OptionReply { reply, data } = receive_reply(stream, opt::STARTTLS)?;
    match reply {
        rep::ACK => agree_on_keys(stream, tls),
        _ => Err(refused("TLS", reply, &data)),
    }
}

fn agree(stream: &TimedStream<'_>, options: &ConnectOptions) -> Result<RemoteExport, ClientError> {
    let mut export =
        RemoteExport { size: 0, flags: 0, block_sizes: None, structured: false, allocation: None };
    if options.structured || options.allocation {
        export.structured = ask_structured(stream)?;
    }
    if options.allocation && export.structured {
        export.allocation = ask_allocation(stream, &options.export)?;
    }
    go(stream, &options.export, &mut export)?;
    Ok(export)
}

fn greet(stream: &TimedStream<'_>) -> Result<(), ClientError> {
    let mut greeting = [0; 18];
    stream.receive_exact(&mut greeting)?;
    let mut reader = Reader::new(&greeting);
    if (reader.u64(), reader.u64()) != (Some(MAGIC_SERVER), Some(MAGIC_OPTION)) {
        return Err(protocol("its greeting is not that of a newstyle server"));
    }
    let flags = reader.u16().unwrap_or(0);
    if flags & FLAG_FIXED_NEWSTYLE == 0 {
        return Err(protocol("it does not know the fixed newstyle handshake"));
    }
    let answer = u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
    Ok(stream.send_all(&answer.to_be_bytes())?)
}

fn ask_structured(stream: &TimedStream<'_>) -> Result<bool, ClientError> {
    send_option(stream, opt::STRUCTURED_REPLY, &[])?;
    Ok(receive_reply(stream, opt::STRUCTURED_REPLY)?.reply == rep::ACK)
}

fn ask_allocation(stream: &TimedStream<'_>, name: &str) -> Result<Option<u32>, ClientError> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    data.put_u32(1);
    put_string(&mut data, CONTEXT_ALLOCATION);
    send_option(stream, opt::SET_META_CONTEXT, &data)?;
    let mut id = None;
    loop {
        let OptionReply { reply, data } = receive_reply(stream, opt::SET_META_CONTEXT)?;
        match reply {
            rep::META_CONTEXT => id = Reader::new(&data).u32(),
            rep::ACK => return Ok(id),
            _ => return Ok(None),
        }
    }
}

fn go(stream: &TimedStream<'_>, name: &str, export: &mut RemoteExport) -> Result<(), ClientError> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    data.put_u16(1);
    data.put_u16(info::BLOCK_SIZE);
    send_option(stream, opt::GO, &data)?;
    let mut complete = false;
    loop {
        let OptionReply { reply, data } = receive_reply(stream, opt::GO)?;
        match reply {
            rep::INFO => complete |= take_info(&data, export)?,
            rep::ACK if complete => return Ok(()),
            rep::ACK => return Err(protocol("it did not report the size of the export")),
            _ => return Err(refused("the export", reply, &data)),
        }
    }
}

/// Stores an item of information; returns whether it was the export's size and flags.
fn take_info(data: &[u8], export: &mut RemoteExport) -> Result<bool, ClientError> {
    let mut reader = Reader::new(data);
    match reader.u16() {
        Some(info::EXPORT) => {
            let (Some(size), Some(flags)) = (reader.u64(), reader.u16()) else {
                return Err(protocol("its description of the export is too short"));
            };
            (export.size, export.flags) = (size, flags);
            Ok(true)
        }
        Some(info::BLOCK_SIZE) => {
            let sizes = [reader.u32(), reader.u32(), reader.u32()].map(Option::unwrap_or_default);
            export.block_sizes = Some(sizes);
            Ok(false)
        }
        _ => Ok(false),
    }
}

fn send_option(stream: &TimedStream<'_>, option: u32, data: &[u8]) -> Result<(), ClientError> {
    let mut bytes = Vec::new();
    bytes.put_u64(MAGIC_OPTION);
    bytes.put_u32(option);
    bytes.put_u32(length_u32(data.len()));
    bytes.put(data);
    Ok(stream.send_all(&bytes)?)
}

struct OptionReply {
    reply: u32,
    data: Vec<u8>,
}

fn receive_reply(stream: &TimedStream<'_>, option: u32) -> Result<OptionReply, ClientError> {
    let mut header = [0; 20];
    stream.receive_exact(&mut header)?;
    let mut reader = Reader::new(&header);
    if (reader.u64(), reader.u32()) != (Some(MAGIC_OPTION_REPLY), Some(option)) {
        return Err(protocol("its reply does not belong to the requested option"));
    }
    let reply = reader.u32().unwrap_or_default();
    let length = reader.u32().unwrap_or_default();
    if length > OPTION_DATA_MAX {
        return Err(protocol("its reply to an option is longer than 64 KiB"));
    }
    let mut data = vec![0; usize::try_from(length).expect("checked above")];
    stream.receive_exact(&mut data)?;
    Ok(OptionReply { reply, data })
}

fn put_string(data: &mut Vec<u8>, text: &str) {
    data.put_u32(length_u32(text.len()));
    data.put(text.as_bytes());
}

fn refused(option: &'static str, reply: u32, data: &[u8]) -> ClientError {
    ClientError::Refused { option, reply, text: server_text(data) }
}

fn protocol(text: &str) -> ClientError {
    ClientError::Protocol(text.to_owned())
}
