use kickcache_engine::request::Durability;

use super::*;
use crate::decoded_prefix::DecodedPrefix;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Simple,
    Structured,
    Extended,
}

fn agreed(form: Form, export: &str) -> Stream {
    let mut stream = Stream::flags(3);
    match form {
        Form::Simple => {}
        Form::Structured => stream = stream.option(opt::STRUCTURED_REPLY, &[]),
        Form::Extended => stream = stream.option(opt::EXTENDED_HEADERS, &[]),
    }
    if form != Form::Simple {
        stream = stream.option(opt::SET_META_CONTEXT, &context_data(export, &["base:allocation"]));
    }
    stream.option(opt::GO, &go_data(export, &[]))
}

fn after(form: Form, export: &str, requests: &Stream) -> Outcome {
    let handshake = agreed(form, export);
    let stream = Stream([&handshake.0[..], &requests.0].concat());
    let (_, mut outcome) = run(&stream);
    let (_, before) = run(&handshake);
    outcome.output.drain(..before.output.len());
    outcome
}

fn on_disk(requests: &Stream) -> Outcome {
    after(Form::Simple, "disk", requests)
}

fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Stream {
    Stream::default().request(kind, flags, offset, length)
}

fn simple_reply(error: u32) -> Vec<u8> {
    let mut reply = Vec::new();
    reply.put_u32(MAGIC_SIMPLE_REPLY);
    reply.put_u32(error);
    reply.put_u64(COOKIE);
    reply
}

fn refusal(requests: &Stream) -> u32 {
    let outcome = on_disk(requests);
    assert_eq!(outcome.events, []);
    error_of(&outcome.output)
}

fn error_of(output: &[u8]) -> u32 {
    let error = Reader::new(&output[4..]).u32().unwrap();
    assert_eq!(output, simple_reply(error));
    error
}

fn command(form: Form, requests: &Stream) -> Command {
    let outcome = after(form, "disk", requests);
    assert!(outcome.output.is_empty());
    match outcome.events[..] {
        [Decoded::Command(command)] => command,
        ref events => panic!("{events:?}"),
    }
}

const FINE: u32 = 0;
const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

#[test]
fn every_command_arrives_with_its_flags() {
    let kinds = [
        (cmd::READ, 0, CommandKind::Read { dont_fragment: false }),
        (cmd::READ, cmd_flag::DF, CommandKind::Read { dont_fragment: true }),
        (cmd::WRITE, 0, CommandKind::Write { fua: false }),
        (cmd::WRITE, cmd_flag::FUA, CommandKind::Write { fua: true }),
        (cmd::TRIM, 0, CommandKind::Trim { fua: false }),
        (cmd::TRIM, cmd_flag::FUA, CommandKind::Trim { fua: true }),
        (cmd::CACHE, 0, CommandKind::Cache),
        (cmd::WRITE_ZEROES, 0, CommandKind::WriteZeroes { fua: false, no_hole: false, fast: false }),
        (
            cmd::WRITE_ZEROES,
            cmd_flag::NO_HOLE,
            CommandKind::WriteZeroes { fua: false, no_hole: true, fast: false },
        ),
        (
            cmd::WRITE_ZEROES,
            cmd_flag::FAST_ZERO | cmd_flag::FUA,
            CommandKind::WriteZeroes { fua: true, no_hole: false, fast: true },
        ),
        (cmd::BLOCK_STATUS, 0, CommandKind::BlockStatus { one: false }),
        (cmd::BLOCK_STATUS, cmd_flag::REQ_ONE, CommandKind::BlockStatus { one: true }),
    ];
    for (number, flags, kind) in kinds {
        let expected = Command { cookie: COOKIE, kind, offset: 3, length: 4097, export: 0 };
        assert_eq!(command(Form::Structured, &request(number, flags, 3, 4097)), expected);
        let extended = Stream::default().extended(number, flags, 3, 4097);
        assert_eq!(command(Form::Extended, &extended), expected);
    }
}

#[test]
fn reads_up_to_the_last_byte_are_commands() {
    assert_eq!(command(Form::Simple, &request(cmd::READ, 0, SIZE - 1, 1)).offset, SIZE - 1);
    assert_eq!(command(Form::Simple, &request(cmd::READ, 0, 0, 32 << 20)).length, PAYLOAD_MAX);
}

#[test]
fn reads_beyond_the_end_are_invalid() {
    assert_eq!(refusal(&request(cmd::READ, 0, SIZE, 1)), EINVAL);
    assert_eq!(refusal(&request(cmd::READ, 0, SIZE - 1, 2)), EINVAL);
    assert_eq!(refusal(&request(cmd::READ, 0, u64::MAX, 2)), EINVAL);
    assert_eq!(refusal(&request(cmd::READ, 0, u64::MAX - 511, 512)), EINVAL);
}

#[test]
fn trim_and_cache_beyond_the_end_are_invalid() {
    assert_eq!(refusal(&request(cmd::TRIM, 0, SIZE - 1, 2)), EINVAL);
    assert_eq!(refusal(&request(cmd::CACHE, 0, u64::MAX, 2)), EINVAL);
    assert_eq!(refusal(&request(cmd::WRITE_ZEROES, 0, SIZE - 1, 2)), ENOSPC);
}

#[test]
fn writes_beyond_the_end_fail_and_their_data_is_skipped() {
    let mut requests = request(cmd::WRITE, 0, SIZE - 1, 600);
    requests.0.extend_from_slice(&[0xaa; 600]);
    let outcome = on_disk(&requests.request(cmd::FLUSH, 0, 0, 0));
    assert_eq!(error_of(&outcome.output), ENOSPC);
    assert_eq!(outcome.events[0], Decoded::SkipPayload(600));
    assert!(matches!(outcome.events[1], Decoded::Command(Command { kind: CommandKind::Flush, .. })));
}

#[test]
fn oversized_reads_are_invalid_and_the_connection_stays() {
    for length in [(32 << 20) + 1, 64 << 20, u32::MAX] {
        let outcome = on_disk(&request(cmd::READ, 0, 0, length).request(cmd::FLUSH, 0, 0, 0));
        assert_eq!(error_of(&outcome.output), EINVAL);
        assert_eq!(outcome.events.len(), 1);
    }
}

#[test]
fn refused_writes_are_drained_up_to_64_mib() {
    let outcome = on_disk(&request(cmd::WRITE, 0, 0, 64 << 20));
    assert_eq!(error_of(&outcome.output), EINVAL);
    assert_eq!(outcome.events, [Decoded::SkipPayload(64 << 20)]);
    for length in [(64 << 20) + 1, u32::MAX] {
        let outcome = on_disk(&request(cmd::WRITE, 0, 0, length));
        let reason = CloseReason::PayloadLength(length.into());
        assert_eq!(outcome.events, [Decoded::Close(reason)]);
        assert!(reason.to_string().ends_with("at most 67108864 are accepted"), "{reason}");
    }
}

#[test]
fn changes_up_to_the_last_byte_are_commands() {
    for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES, cmd::CACHE] {
        let found = command(Form::Simple, &request(kind, 0, SIZE - 4096, 4096));
        assert_eq!((found.offset, found.length), (SIZE - 4096, 4096));
    }
}

#[test]
fn a_write_of_32_mib_is_the_largest() {
    assert_eq!(command(Form::Simple, &request(cmd::WRITE, 0, 0, 32 << 20)).length, PAYLOAD_MAX);
    let outcome = on_disk(&request(cmd::WRITE, 0, 0, (32 << 20) + 1));
    assert_eq!(error_of(&outcome.output), EINVAL);
    assert_eq!(outcome.events, [Decoded::SkipPayload((32 << 20) + 1)]);
}

#[test]
fn fua_reaches_the_server_with_every_change() {
    for flags in [0, cmd_flag::FUA] {
        let expected = if flags == 0 { Durability::Volatile } else { Durability::Durable };
        for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            let simple = command(Form::Simple, &request(kind, flags, 0, 512));
            let extended = command(Form::Extended, &Stream::default().extended(kind, flags, 0, 512));
            assert_eq!([simple, extended].map(|found| found.kind.durability()), [expected; 2]);
        }
    }
}

#[test]
fn a_read_only_export_can_be_read_cached_and_flushed() {
    for kind in [cmd::READ, cmd::CACHE, cmd::FLUSH] {
        let outcome = after(Form::Simple, "archive", &request(kind, 0, 0, 4));
        assert!(matches!(outcome.events[..], [Decoded::Command(_)]) && outcome.output.is_empty());
    }
    // A change of no bytes is refused, too.
    for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
        let outcome = after(Form::Simple, "archive", &request(kind, 0, 0, 0));
        assert_eq!(error_of(&outcome.output), EPERM);
    }
}

#[test]
fn a_command_of_length_0_has_no_effect() {
    for kind in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES, cmd::CACHE] {
        assert_eq!(refusal(&request(kind, 0, 4096, 0)), FINE);
        assert_eq!(refusal(&request(kind, 0, SIZE, 0)), FINE);
    }
    assert_eq!(refusal(&request(cmd::READ, 0, SIZE + 1, 0)), EINVAL);
}

#[test]
fn unknown_commands_and_flags_are_invalid() {
    assert_eq!(refusal(&request(8, 0, 0, 1)), EINVAL);
    assert_eq!(refusal(&request(u16::MAX, 0, 0, u32::MAX)), EINVAL);
    assert_eq!(refusal(&request(cmd::READ, 1 << 15, 0, 512)), EINVAL);
    assert_eq!(refusal(&request(cmd::READ, cmd_flag::NO_HOLE, 0, 512)), EINVAL);
    assert_eq!(refusal(&request(cmd::FLUSH, cmd_flag::REQ_ONE, 0, 0)), EINVAL);
    let outcome = on_disk(&request(cmd::WRITE, cmd_flag::PAYLOAD_LEN, 0, 512));
    assert_eq!(error_of(&outcome.output), EINVAL);
    assert_eq!(outcome.events, [Decoded::SkipPayload(512)]);
}

#[test]
fn dont_fragment_needs_structured_replies() {
    assert_eq!(refusal(&request(cmd::READ, cmd_flag::DF, 0, 512)), EINVAL);
}

#[test]
fn a_wrong_request_magic_ends_the_connection() {
    let mut requests = request(cmd::READ, 0, 0, 512);
    requests.0[0] ^= 1;
    let outcome = on_disk(&requests);
    assert_eq!(outcome.events, [Decoded::Close(CloseReason::RequestMagic(0x2460_9513))]);
    let outcome = after(Form::Extended, "disk", &Stream([&requests.0[..], &[0; 4]].concat()));
    assert_eq!(outcome.events, [Decoded::Close(CloseReason::RequestMagic(0x2460_9513))]);
}

#[test]
fn fua_is_fine_on_every_command() {
    for kind in [cmd::READ, cmd::FLUSH, cmd::CACHE, cmd::BLOCK_STATUS] {
        let found = command(Form::Structured, &request(kind, cmd_flag::FUA, 0, 512));
        assert_eq!(found.cookie, COOKIE);
    }
}

#[test]
fn flush_ignores_offset_and_length() {
    let found = command(Form::Simple, &request(cmd::FLUSH, 0, u64::MAX, u32::MAX));
    assert_eq!((found.kind, found.offset, found.length), (CommandKind::Flush, 0, 0));
}

#[test]
fn trim_and_zeroes_may_have_the_maximum_length() {
    let big = ExportInfo { size: 1 << 40, ..exports()[0].clone() };
    for kind in [cmd::TRIM, cmd::WRITE_ZEROES, cmd::CACHE, cmd::BLOCK_STATUS] {
        let mut session = Session::new(Arc::new([big.clone()]));
        let stream = agreed(Form::Structured, "disk").request(kind, 0, 1 << 39, u32::MAX);
        let outcome = feed(&mut session, &stream.0, 4096);
        assert!(matches!(outcome.events[..], [Decoded::Command(Command { length: 0xffff_ffff, .. })]));
        let mut session = Session::new(Arc::new([big.clone()]));
        let stream = agreed(Form::Extended, "disk").extended(kind, 0, 0, 1 << 40);
        let outcome = feed(&mut session, &stream.0, 4096);
        assert!(matches!(outcome.events[..], [Decoded::Command(Command { length: 0x100_0000_0000, .. })]));
    }
}

#[test]
fn a_read_only_export_is_not_written() {
    for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
        let mut requests = request(kind, 0, 0, 4);
        if kind == cmd::WRITE {
            requests.0.extend_from_slice(b"data");
        }
        let outcome = after(Form::Simple, "archive", &requests.request(cmd::READ, 0, 0, 4));
        assert_eq!(error_of(&outcome.output), EPERM);
        let Some(Decoded::Command(read)) = outcome.events.last() else { panic!("{outcome:?}") };
        assert_eq!((read.kind, read.export), (CommandKind::Read { dont_fragment: false }, 1));
    }
}

#[test]
fn block_status_needs_a_context_and_a_length() {
    assert_eq!(refusal(&request(cmd::BLOCK_STATUS, 0, 0, 512)), EINVAL);
    let outcome = after(Form::Structured, "disk", &request(cmd::BLOCK_STATUS, 0, 0, 0));
    assert_eq!(outcome.events, []);
    assert_eq!(chunk_error(&outcome.output, 20), EINVAL);
}

fn chunk_error(output: &[u8], header: usize) -> u32 {
    assert_eq!(output[4..8], [0, 1, 0x80, 1], "done, error");
    let mut reader = Reader::new(&output[header..]);
    let error = reader.u32().unwrap();
    let length = usize::from(reader.u16().unwrap());
    assert!(length > 0 && reader.rest().len() == length, "a text to the end of the reply");
    error
}

#[test]
fn refusals_carry_a_text_once_replies_are_structured() {
    let outcome = after(Form::Structured, "disk", &request(cmd::READ, 0, SIZE, 1));
    assert_eq!(chunk_error(&outcome.output, 20), EINVAL);
    let outcome = after(Form::Extended, "disk", &Stream::default().extended(cmd::READ, 0, SIZE, 1));
    assert_eq!(chunk_error(&outcome.output, 32), EINVAL);
}

#[test]
fn an_extended_write_needs_no_flag_for_its_data() {
    for flags in [0, cmd_flag::PAYLOAD_LEN] {
        let found = command(Form::Extended, &Stream::default().extended(cmd::WRITE, flags, 0, 512));
        assert_eq!(found.kind, CommandKind::Write { fua: false });
    }
}

#[test]
fn data_where_none_belongs_is_refused_and_skipped() {
    for kind in [cmd::READ, cmd::FLUSH, cmd::BLOCK_STATUS, 4711] {
        let requests = Stream::default().extended(kind, cmd_flag::PAYLOAD_LEN, 0, 24);
        let outcome = after(Form::Extended, "disk", &requests);
        assert_eq!(chunk_error(&outcome.output, 32), EINVAL);
        assert_eq!(outcome.events, [Decoded::SkipPayload(24)]);
        let requests = Stream::default().extended(kind, cmd_flag::PAYLOAD_LEN, 0, u64::MAX);
        let outcome = after(Form::Extended, "disk", &requests);
        assert_eq!(outcome.events, [Decoded::Close(CloseReason::PayloadLength(u64::MAX))]);
    }
}

#[test]
fn disconnect_ends_the_connection_without_a_reply() {
    let (mut session, outcome) = run(&agreed(Form::Simple, "disk").request(cmd::DISC, 0, 0, 0));
    assert_eq!(outcome.events, [Decoded::Close(CloseReason::Disconnect)]);
    assert_eq!(
        session.decode(b"more"),
        DecodedPrefix { consumed: 0, meaning: Decoded::Close(CloseReason::Disconnect) }
    );
    assert!(!session.is_transmission());
    assert!(CloseReason::Disconnect.is_orderly() && !CloseReason::OutputFlood.is_orderly());
    assert_eq!(session.export(), Some(0));
}

#[test]
fn commands_in_flight_are_answered_after_a_disconnect() {
    let (session, outcome) =
        run(&agreed(Form::Simple, "disk").request(cmd::FLUSH, 0, 0, 0).request(cmd::DISC, 0, 0, 0));
    let Decoded::Command(flush) = outcome.events[0] else { panic!("{outcome:?}") };
    let mut head = ReplyHead::new();
    session.encode_done(&flush, &mut head);
    assert_eq!(head.as_slice(), simple_reply(0));
}

#[test]
fn unread_refusals_end_the_connection() {
    let mut session = Session::new(exports());
    let decoded = session.decode(&agreed(Form::Structured, "disk").0).meaning;
    assert_eq!(decoded, Decoded::NeedMore);
    let requests = (0..40_000).fold(Stream::default(), |stream, _| stream.request(9, 0, 0, 0));
    assert_eq!(session.decode(&requests.0).meaning, Decoded::Close(CloseReason::OutputFlood));
}

proptest! {
    #[test]
    fn a_command_is_accepted_exactly_if_it_fits_the_export(
        offset in prop_oneof![0..=2 * SIZE, u64::MAX - 4096..=u64::MAX],
        length in 1_u32..=40 << 20,
    ) {
        let fits = u128::from(offset) + u128::from(length) <= u128::from(SIZE);
        let small = u64::from(length) <= PAYLOAD_MAX;
        let mut session = Session::new(exports());
        let stream = agreed(Form::Simple, "disk").request(cmd::READ, 0, offset, length);
        let DecodedPrefix { consumed, meaning: decoded } = session.decode(&stream.0);
        prop_assert_eq!(consumed, stream.0.len());
        prop_assert_eq!(matches!(decoded, Decoded::Command(_)), fits && small);
    }
}
