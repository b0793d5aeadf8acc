use super::*;

const READ: Command = Command {
    cookie: 0x0102_0304_0506_0708,
    kind: CommandKind::Read { dont_fragment: false },
    offset: 0x1000,
    length: 0x200,
    export: 0,
};
const WRITE: Command = Command { kind: CommandKind::Write { fua: false }, ..READ };
const STATUS: Command = Command { kind: CommandKind::BlockStatus { one: false }, ..READ };
const STATUS_ONE: Command = Command { kind: CommandKind::BlockStatus { one: true }, ..READ };
const FORMS: [HeaderForm; 3] = [HeaderForm::Simple, HeaderForm::Structured, HeaderForm::Extended];

const SIMPLE_OK: &str = "67446698 00000000 0102030405060708";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn done(form: HeaderForm, command: Command) -> Vec<u8> {
    let mut head = ReplyHead::new();
    put_done(ReplyTo::new(form, &command), Answers::of(command.kind), &mut head);
    head.as_slice().to_vec()
}

fn read_header(form: HeaderForm) -> Vec<u8> {
    let mut head = ReplyHead::new();
    put_read_header(ReplyTo::new(form, &READ), READ.length, &mut head);
    head.as_slice().to_vec()
}

fn status(form: HeaderForm, command: Command, extents: &[StatusExtent]) -> Vec<u8> {
    let mut output = Vec::new();
    put_block_status(form, &command, extents, &mut output);
    output
}

fn extent(length: u64, hole: bool, zero: bool) -> StatusExtent {
    StatusExtent { length, hole, zero }
}

#[test]
fn read_headers_are_right_byte_for_byte() {
    assert_eq!(read_header(HeaderForm::Simple), bytes(SIMPLE_OK));
    let structured = "668e33ef 0001 0001 0102030405060708 00000208 0000000000001000";
    assert_eq!(read_header(HeaderForm::Structured), bytes(structured));
    let extended = "6e8a278c 0001 0001 0102030405060708 0000000000001000 0000000000000208 0000000000001000";
    assert_eq!(read_header(HeaderForm::Extended), bytes(extended));
}

#[test]
fn success_without_data_is_a_simple_reply_by_default() {
    assert_eq!(done(HeaderForm::Simple, WRITE), bytes(SIMPLE_OK));
    assert_eq!(done(HeaderForm::Structured, WRITE), bytes(SIMPLE_OK));
    let extended = "6e8a278c 0001 0000 0102030405060708 0000000000001000 0000000000000000";
    assert_eq!(done(HeaderForm::Extended, WRITE), bytes(extended));
}

#[test]
fn an_empty_structured_read_ends_with_a_chunk() {
    assert_eq!(done(HeaderForm::Simple, READ), bytes(SIMPLE_OK));
    let structured = "668e33ef 0001 0000 0102030405060708 00000000";
    assert_eq!(done(HeaderForm::Structured, READ), bytes(structured));
}

#[test]
fn errors_are_right_byte_for_byte() {
    let errors = FORMS.map(|form| {
        let mut output = Vec::new();
        put_error(ReplyTo::new(form, &READ), NbdErrno::Io, "bad", &mut output);
        output
    });
    assert_eq!(errors[0], bytes("67446698 00000005 0102030405060708"));
    assert_eq!(errors[1], bytes("668e33ef 0001 8001 0102030405060708 00000009 00000005 0003 626164"));
    let extended =
        "6e8a278c 0001 8001 0102030405060708 0000000000001000 0000000000000009 00000005 0003 626164";
    assert_eq!(errors[2], bytes(extended));
}

#[test]
fn block_status_is_right_byte_for_byte() {
    let extents = [extent(0x80, true, true), extent(0x180, false, false)];
    let structured = "668e33ef 0001 0005 0102030405060708 00000014 00000001
        00000080 00000003 00000180 00000000";
    assert_eq!(status(HeaderForm::Structured, STATUS, &extents), bytes(structured));
    let extended = "6e8a278c 0001 0006 0102030405060708 0000000000001000 0000000000000028 00000001 00000002
        0000000000000080 0000000000000003 0000000000000180 0000000000000000";
    assert_eq!(status(HeaderForm::Extended, STATUS, &extents), bytes(extended));
}

#[test]
fn block_status_merges_neighbours_and_ends_with_the_request() {
    let extents = [
        extent(0x80, true, false),
        extent(0, false, false),
        extent(0x80, true, false),
        extent(u64::MAX, false, true),
        extent(1, false, false),
    ];
    assert_eq!(answerable(&STATUS, &extents), [extent(0x100, true, false), extent(0x100, false, true)]);
    assert_eq!(answerable(&STATUS_ONE, &extents), [extent(0x100, true, false)]);
}

#[test]
fn block_status_without_extents_reports_data() {
    assert_eq!(answerable(&STATUS, &[]), [extent(0x200, false, false)]);
}

#[test]
fn every_error_number_survives_the_round_trip() {
    for value in [1, 5, 12, 22, 28, 75, 95, 108] {
        assert_eq!(NbdErrno::from_value(value).value(), value);
    }
    assert_eq!(NbdErrno::from_value(4711), NbdErrno::Invalid);
}

#[test]
fn engine_errors_keep_their_meaning() {
    let pairs = [
        (Errno::Io, 5),
        (Errno::Invalid, 22),
        (Errno::NoSpace, 28),
        (Errno::NotSupported, 95),
        (Errno::NotPermitted, 1),
        (Errno::Shutdown, 108),
    ];
    for (errno, value) in pairs {
        assert_eq!(NbdErrno::from(errno).value(), value);
    }
}

#[test]
fn a_cleared_head_takes_the_next_reply() {
    let mut head = ReplyHead::default();
    for form in FORMS {
        head.clear();
        put_read_header(ReplyTo::new(form, &READ), READ.length, &mut head);
        assert_eq!(head.as_slice(), read_header(form));
    }
}
