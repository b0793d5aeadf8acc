use super::*;

/// The replies to options: option, type, data.
pub(super) fn replies(mut output: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !output.is_empty() {
        let mut reader = Reader::new(output);
        assert_eq!(reader.u64(), Some(MAGIC_OPTION_REPLY));
        let (option, reply) = (reader.u32().unwrap(), reader.u32().unwrap());
        let data = reader.counted_bytes().unwrap();
        replies.push((option, reply, data.to_vec()));
        output = reader.rest();
    }
    replies
}

pub(super) fn newstyle() -> Stream {
    Stream::flags(3)
}

fn answer(option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (_, outcome) = run(&newstyle().option(option, data));
    assert_eq!(outcome.events, []);
    replies(&outcome.output).into_iter().map(|(_, reply, data)| (reply, data)).collect()
}

fn verdict(option: u32, data: &[u8]) -> u32 {
    let answers = answer(option, data);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0].0
}

fn closed(stream: &Stream) -> CloseReason {
    let (session, outcome) = run(stream);
    assert!(!session.is_transmission());
    match outcome.events[..] {
        [Decoded::Close(reason)] => reason,
        ref events => panic!("{events:?}"),
    }
}

fn info_item(item: u16, parts: &[&[u8]]) -> (u32, Vec<u8>) {
    (rep::INFO, [&item.to_be_bytes(), parts.concat().as_slice()].concat())
}

fn size_and_flags(flags: u16) -> (u32, Vec<u8>) {
    info_item(info::EXPORT, &[&SIZE.to_be_bytes(), &flags.to_be_bytes()])
}

fn block_sizes() -> (u32, Vec<u8>) {
    info_item(info::BLOCK_SIZE, &[&[0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]])
}

const DISK_FLAGS: u16 = 0b1101_0110_1101;
const ARCHIVE_FLAGS: u16 = 0b0101_0001_1111;

#[test]
fn unknown_client_flags_end_the_connection() {
    assert_eq!(closed(&Stream::flags(u32::MAX)), CloseReason::ClientFlags(u32::MAX));
    assert_eq!(closed(&Stream::flags(4)), CloseReason::ClientFlags(4));
}

#[test]
fn a_wrong_option_magic_ends_the_connection() {
    let mut stream = newstyle();
    stream.0.extend_from_slice(&[7; 16]);
    assert_eq!(closed(&stream), CloseReason::OptionMagic(0x0707_0707_0707_0707));
}

#[test]
fn an_option_of_2_gib_ends_the_connection() {
    let mut stream = newstyle().option(opt::GO, &[]);
    stream.0[16..].copy_from_slice(&(1_u32 << 31).to_be_bytes());
    assert_eq!(closed(&stream), CloseReason::OptionLength { option: opt::GO, length: 1 << 31 });
}

#[test]
fn option_data_above_64_kib_ends_the_connection() {
    let data = vec![0; 65537];
    assert_eq!(verdict(4711, &data[..65536]), rep::ERR_UNSUP);
    let stream = newstyle().option(4711, &data);
    assert_eq!(closed(&stream), CloseReason::OptionLength { option: 4711, length: 65537 });
}

#[test]
fn unknown_options_are_unsupported_and_the_handshake_goes_on() {
    assert_eq!(verdict(4, b"some data"), rep::ERR_UNSUP);
    let (session, outcome) = run(&newstyle().option(4711, b"data").option(opt::GO, &go_data("disk", &[])));
    assert_eq!(replies(&outcome.output)[0].1, rep::ERR_UNSUP);
    assert!(session.is_transmission());
}

#[test]
fn a_thousand_options_are_enough() {
    let stream = (0..1000).fold(newstyle(), |stream, _| stream.option(4711, &[]));
    let (_, outcome) = run(&stream);
    assert_eq!(outcome.events, []);
    assert_eq!(closed(&stream.option(4711, &[])), CloseReason::OptionCount);
}

#[test]
fn unread_replies_end_the_connection() {
    let many = vec![ExportInfo { description: "x".repeat(4096), ..exports()[0].clone() }; 100];
    let mut session = Session::new(many.into());
    let stream = (0..100).fold(newstyle(), |stream, _| stream.option(opt::LIST, &[]));
    assert_eq!(session.decode(&stream.0).meaning, Decoded::Close(CloseReason::OutputFlood));
    let mut output = Vec::new();
    session.take_output(&mut output);
    assert!(output.len() < OUTPUT_MAX + 100 * 5000, "{}", output.len());
}

#[test]
fn abort_is_acknowledged_and_ends_the_connection() {
    let (session, outcome) = run(&newstyle().option(opt::ABORT, &[]));
    assert_eq!(outcome.events, [Decoded::Close(CloseReason::Abort)]);
    assert_eq!(replies(&outcome.output), [(opt::ABORT, rep::ACK, vec![])]);
    assert_eq!(session.export(), None);
}

#[test]
fn starttls_is_against_the_policy() {
    assert_eq!(verdict(opt::STARTTLS, &[]), rep::ERR_POLICY);
    assert_eq!(verdict(opt::STARTTLS, b"x"), rep::ERR_INVALID);
}

#[test]
fn list_names_every_export_with_its_description() {
    let expected = [
        (rep::SERVER, [string("disk"), b"a disk".to_vec()].concat()),
        (rep::SERVER, [string("archive"), b"a disk".to_vec()].concat()),
        (rep::ACK, vec![]),
    ];
    assert_eq!(answer(opt::LIST, &[]), expected);
    assert_eq!(verdict(opt::LIST, b"x"), rep::ERR_INVALID);
}

#[test]
fn go_reports_the_export_and_starts_the_transmission() {
    let (session, outcome) = run(&newstyle().option(opt::GO, &go_data("disk", &[])));
    let expected = [size_and_flags(DISK_FLAGS), block_sizes(), (rep::ACK, vec![])];
    let expected = expected.map(|(reply, data)| (opt::GO, reply, data));
    assert_eq!(replies(&outcome.output), expected);
    assert!(session.is_transmission());
    assert_eq!(session.export(), Some(0));
}

#[test]
fn info_reports_the_same_and_the_handshake_continues() {
    let (session, _) = run(&newstyle().option(opt::INFO, &go_data("archive", &[])));
    assert!(!session.is_transmission());
    let asked = go_data("archive", &[info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 4711]);
    let expected = [
        size_and_flags(ARCHIVE_FLAGS),
        block_sizes(),
        info_item(info::NAME, &[b"archive"]),
        info_item(info::DESCRIPTION, &[b"a disk"]),
        (rep::ACK, vec![]),
    ];
    assert_eq!(answer(opt::INFO, &asked), expected);
}

#[test]
fn the_empty_name_means_the_first_export() {
    let (session, outcome) = run(&newstyle().option(opt::GO, &go_data("", &[info::NAME])));
    assert_eq!(session.export(), Some(0));
    assert_eq!(replies(&outcome.output)[2].2, [&[0, 1], &b"disk"[..]].concat());
}

#[test]
fn go_for_a_wrong_name_is_refused_and_continues() {
    assert_eq!(verdict(opt::GO, &go_data("dis", &[])), rep::ERR_UNKNOWN);
    assert_eq!(verdict(opt::INFO, &go_data("diskk", &[])), rep::ERR_UNKNOWN);
    let (session, _) =
        run(&newstyle().option(opt::GO, &go_data("no", &[])).option(opt::GO, &go_data("archive", &[])));
    assert_eq!(session.export(), Some(1));
}

#[test]
fn go_with_lengths_that_do_not_add_up_is_invalid() {
    let data = go_data("disk", &[info::NAME, info::DESCRIPTION]);
    for length in 0..data.len() {
        assert_eq!(verdict(opt::GO, &data[..length]), rep::ERR_INVALID, "{length} bytes");
    }
    assert_eq!(verdict(opt::GO, &[&data[..], b"x"].concat()), rep::ERR_INVALID);
    assert_eq!(verdict(opt::GO, &[0xff; 12]), rep::ERR_INVALID);
}

#[test]
fn names_must_be_text_of_at_most_4096_bytes() {
    assert_eq!(verdict(opt::GO, &go_data(&"x".repeat(4096), &[])), rep::ERR_UNKNOWN);
    assert_eq!(verdict(opt::GO, &go_data(&"x".repeat(4097), &[])), rep::ERR_TOO_BIG);
    assert_eq!(verdict(opt::GO, &go_data("a\0b", &[])), rep::ERR_INVALID);
    assert_eq!(verdict(opt::GO, &[0, 0, 0, 1, 0xff, 0, 0]), rep::ERR_INVALID);
}

#[test]
fn export_name_answers_with_and_without_zeroes() {
    let mut expected = [&SIZE.to_be_bytes()[..], &DISK_FLAGS.to_be_bytes()].concat();
    let (session, outcome) = run(&Stream::flags(3).option(opt::EXPORT_NAME, b"disk"));
    assert!(session.is_transmission());
    assert_eq!(outcome.output, expected);
    expected.resize(134, 0);
    for flags in [0, 1] {
        let (_, outcome) = run(&Stream::flags(flags).option(opt::EXPORT_NAME, b""));
        assert_eq!(outcome.output, expected);
    }
}

#[test]
fn export_name_for_a_wrong_name_ends_the_connection() {
    assert_eq!(closed(&newstyle().option(opt::EXPORT_NAME, b"no")), CloseReason::UnknownExport);
    assert_eq!(closed(&newstyle().option(opt::EXPORT_NAME, b"\xff")), CloseReason::UnknownExport);
}

#[test]
fn export_name_after_extended_headers_ends_the_connection() {
    let stream = newstyle().option(opt::EXTENDED_HEADERS, &[]).option(opt::EXPORT_NAME, b"disk");
    assert_eq!(closed(&stream), CloseReason::ExportNameAfterExtendedHeaders);
}

#[test]
fn without_fixed_newstyle_only_export_name_may_come() {
    assert_eq!(closed(&Stream::flags(0).option(opt::LIST, &[])), CloseReason::NotFixedNewstyle(opt::LIST));
}

#[test]
fn structured_replies_and_extended_headers_take_no_data() {
    for option in [opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS] {
        assert_eq!(verdict(option, &[]), rep::ACK);
        assert_eq!(verdict(option, b"x"), rep::ERR_INVALID);
    }
}

#[test]
fn structured_replies_make_dont_fragment_possible() {
    let (_, outcome) =
        run(&newstyle().option(opt::STRUCTURED_REPLY, &[]).option(opt::GO, &go_data("disk", &[])));
    let expected = size_and_flags(DISK_FLAGS | export_flag::DF);
    assert_eq!(replies(&outcome.output)[1], (opt::GO, expected.0, expected.1));
}

#[test]
fn structured_replies_are_refused_after_extended_headers() {
    let (_, outcome) = run(&newstyle().option(opt::EXTENDED_HEADERS, &[]).option(opt::STRUCTURED_REPLY, &[]));
    let replies = replies(&outcome.output);
    assert_eq!((replies[0].1, replies[1].1), (rep::ACK, rep::ERR_EXT_HEADER_REQD));
}

fn context_answer(option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (_, outcome) = run(&newstyle().option(opt::STRUCTURED_REPLY, &[]).option(option, data));
    assert_eq!(outcome.events, []);
    replies(&outcome.output).into_iter().skip(1).map(|(_, reply, data)| (reply, data)).collect()
}

fn allocation(id: u32) -> Vec<(u32, Vec<u8>)> {
    let data = [&id.to_be_bytes()[..], b"base:allocation"].concat();
    vec![(rep::META_CONTEXT, data), (rep::ACK, vec![])]
}

#[test]
fn metadata_contexts_need_structured_replies() {
    let data = context_data("disk", &["base:allocation"]);
    assert_eq!(verdict(opt::LIST_META_CONTEXT, &data), rep::ERR_INVALID);
    assert_eq!(verdict(opt::SET_META_CONTEXT, &data), rep::ERR_INVALID);
}

#[test]
fn base_allocation_is_listed_and_selected() {
    let nothing = vec![(rep::ACK, vec![])];
    let list = |queries| context_answer(opt::LIST_META_CONTEXT, &context_data("disk", queries));
    let set = |queries| context_answer(opt::SET_META_CONTEXT, &context_data("disk", queries));
    assert_eq!(list(&[]), allocation(0));
    assert_eq!(list(&["base:"]), allocation(0));
    assert_eq!(list(&["qemu:", "base:allocation"]), allocation(0));
    assert_eq!(list(&["base:alloc"]), nothing);
    assert_eq!(set(&["x-other:a", "base:allocation"]), allocation(1));
    assert_eq!(set(&["base:"]), nothing);
    assert_eq!(set(&[]), nothing);
}

#[test]
fn metadata_queries_are_bounded_and_checked() {
    let refused = |data: &[u8]| context_answer(opt::SET_META_CONTEXT, data)[0].0;
    assert_eq!(refused(&context_data("disk", &["x-a:"; 64])), rep::ACK);
    assert_eq!(refused(&context_data("disk", &["x-a:"; 65])), rep::ERR_TOO_BIG);
    assert_eq!(refused(&context_data("no", &["base:allocation"])), rep::ERR_UNKNOWN);
    let data = context_data("disk", &["base:allocation"]);
    for length in 0..data.len() {
        assert_eq!(refused(&data[..length]), rep::ERR_INVALID, "{length} bytes");
    }
}

fn has_status(stream: Stream) -> bool {
    let (_, outcome) = run(&stream.request(cmd::BLOCK_STATUS, 0, 0, 4096));
    !outcome.events.is_empty()
}

#[test]
fn a_selection_holds_for_its_export_until_the_next_selection() {
    let structured = newstyle().option(opt::STRUCTURED_REPLY, &[]);
    let selected = structured.option(opt::SET_META_CONTEXT, &context_data("disk", &["base:allocation"]));
    let go = |stream: &Stream, name| stream.clone().option(opt::GO, &go_data(name, &[]));
    assert!(has_status(go(&selected, "disk")));
    assert!(has_status(go(&selected, "")));
    assert!(!has_status(go(&selected, "archive")));
    let other = selected.clone().option(opt::SET_META_CONTEXT, &context_data("disk", &[]));
    assert!(!has_status(go(&other, "disk")));
    let failed = selected.option(opt::SET_META_CONTEXT, b"nonsense");
    assert!(!has_status(go(&failed, "disk")));
}

#[test]
fn extended_headers_void_a_selection() {
    let stream = newstyle()
        .option(opt::STRUCTURED_REPLY, &[])
        .option(opt::SET_META_CONTEXT, &context_data("disk", &["base:allocation"]))
        .option(opt::EXTENDED_HEADERS, &[])
        .option(opt::GO, &go_data("disk", &[]))
        .extended(cmd::BLOCK_STATUS, 0, 0, 4096);
    let (_, outcome) = run(&stream);
    assert_eq!(outcome.events, []);
}

#[test]
fn long_descriptions_are_cut_at_a_character() {
    let export = ExportInfo { description: format!("x{}", "ä".repeat(4096)), ..exports()[0].clone() };
    let mut session = Session::new(Arc::new([export]));
    let outcome = feed(&mut session, &newstyle().option(opt::LIST, &[]).0, 4096);
    let replies = replies(&outcome.output[18..]);
    let description = &replies[0].2[8..];
    assert_eq!(description.len(), 4095);
    assert!(std::str::from_utf8(description).is_ok());
}
