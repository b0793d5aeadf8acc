use super::handshake::{newstyle, replies};
use super::*;
use crate::tls::{Access, TlsPolicy};

fn session(policy: TlsPolicy) -> Session {
    let mut session = Session::with_tls(exports(), policy);
    session.take_output(&mut Vec::new());
    session
}

fn start_tls() -> Stream {
    newstyle().option(opt::STARTTLS, &[])
}

fn options() -> Stream {
    Stream::default()
}

fn verdicts(outcome: &Outcome) -> Vec<u32> {
    replies(&outcome.output).into_iter().map(|(_, reply, _)| reply).collect()
}

fn secured(policy: TlsPolicy, access: &[Access]) -> Session {
    let mut session = session(policy);
    let outcome = feed(&mut session, &start_tls().0, 1);
    assert_eq!((verdicts(&outcome), outcome.events), (vec![rep::ACK], vec![Decoded::StartTls]));
    session.secure(access);
    session
}

fn after(session: &mut Session, stream: &Stream) -> Outcome {
    feed(session, &stream.0, 7)
}

#[test]
fn a_server_without_tls_refuses_starttls_and_continues() {
    let (session, outcome) = run(&start_tls().option(opt::GO, &go_data("disk", &[])));
    assert_eq!(verdicts(&outcome)[0], rep::ERR_POLICY);
    assert!(session.is_transmission());
}

#[test]
fn only_tls_goes_on_where_it_is_required() {
    let options = [opt::LIST, opt::INFO, opt::GO, opt::STRUCTURED_REPLY, opt::SET_META_CONTEXT, 4711];
    let stream = options.into_iter().fold(newstyle(), |stream, option| stream.option(option, b"any data"));
    let mut session = session(TlsPolicy::Require);
    let outcome = after(&mut session, &stream);
    assert_eq!(outcome.events, []);
    assert_eq!(verdicts(&outcome), [rep::ERR_TLS_REQD; 6]);
    let outcome = after(&mut session, &options_of_start_tls());
    assert_eq!((verdicts(&outcome), outcome.events), (vec![rep::ACK], vec![Decoded::StartTls]));
}

fn options_of_start_tls() -> Stream {
    options().option(opt::STARTTLS, &[])
}

#[test]
fn export_name_and_abort_end_a_connection_that_lacks_tls() {
    let ends = |option, data: &[u8]| {
        let outcome = after(&mut session(TlsPolicy::Require), &newstyle().option(option, data));
        outcome.events
    };
    assert_eq!(ends(opt::EXPORT_NAME, b"disk"), [Decoded::Close(CloseReason::ExportNameWithoutTls)]);
    assert_eq!(ends(opt::ABORT, b""), [Decoded::Close(CloseReason::Abort)]);
}

#[test]
fn in_the_clear_everything_works_where_tls_is_not_required() {
    let mut session = session(TlsPolicy::On);
    after(&mut session, &newstyle().option(opt::GO, &go_data("disk", &[])));
    assert!(session.is_transmission());
}

#[test]
fn bytes_behind_start_tls_end_the_connection() {
    for policy in [TlsPolicy::On, TlsPolicy::Require] {
        let mut session = session(policy);
        let stream = start_tls().option(opt::STRUCTURED_REPLY, &[]);
        let outcome = feed(&mut session, &stream.0, stream.0.len());
        assert_eq!(outcome.events, [Decoded::Close(CloseReason::BytesBehindStartTls)]);
        assert_eq!(outcome.output, b"", "not even the answer");
    }
}

#[test]
fn start_tls_has_no_data_and_comes_once() {
    let mut session = session(TlsPolicy::On);
    let outcome = after(&mut session, &newstyle().option(opt::STARTTLS, b"x"));
    assert_eq!((verdicts(&outcome), outcome.events), (vec![rep::ERR_INVALID], vec![]));
    let mut session = secured(TlsPolicy::Require, &[]);
    let outcome = after(&mut session, &options_of_start_tls().option(opt::LIST, &[]));
    assert_eq!(verdicts(&outcome), [rep::ERR_INVALID, rep::SERVER, rep::SERVER, rep::ACK]);
}

#[test]
fn no_bytes_are_decoded_before_tls_is_in_use() {
    let mut session = session(TlsPolicy::On);
    feed(&mut session, &start_tls().0, 1);
    let again = session.decode(&options().option(opt::GO, &go_data("disk", &[])).0);
    assert_eq!(again, DecodedPrefix { consumed: 0, meaning: Decoded::StartTls });
}

#[test]
fn agreements_in_the_clear_are_dropped() {
    let mut session = session(TlsPolicy::On);
    let stream = newstyle()
        .option(opt::STRUCTURED_REPLY, &[])
        .option(opt::SET_META_CONTEXT, &context_data("disk", &["base:allocation"]))
        .option(opt::STARTTLS, &[]);
    assert_eq!(after(&mut session, &stream).events, [Decoded::StartTls]);
    session.secure(&[]);
    let stream = options().option(opt::SET_META_CONTEXT, &context_data("disk", &["base:allocation"]));
    assert_eq!(verdicts(&after(&mut session, &stream)), [rep::ERR_INVALID], "no structured replies");
    let stream = options().option(opt::GO, &go_data("disk", &[])).request(cmd::BLOCK_STATUS, 0, 0, 4096);
    let outcome = after(&mut session, &stream);
    assert!(session.is_transmission() && outcome.events.is_empty(), "{:?}", outcome.events);
}

#[test]
fn an_export_that_is_denied_is_neither_listed_nor_given() {
    let mut session = secured(TlsPolicy::Require, &[Access::Denied, Access::Allowed]);
    let listed = after(&mut session, &options().option(opt::LIST, &[]));
    let listed = replies(&listed.output);
    assert_eq!(listed.len(), 2);
    assert!(listed[0].2.ends_with(b"archivea disk"));
    assert_eq!(session.take_denied(), None);
    for name in ["disk", ""] {
        for option in [opt::INFO, opt::GO] {
            let outcome = after(&mut session, &options().option(option, &go_data(name, &[])));
            assert_eq!(verdicts(&outcome), [rep::ERR_POLICY]);
            assert_eq!(session.take_denied(), Some(0));
        }
    }
    after(&mut session, &options().option(opt::GO, &go_data("archive", &[])));
    assert!(session.is_transmission());
    assert_eq!(session.take_denied(), None);
}

#[test]
fn export_name_for_a_denied_export_ends_the_connection() {
    let mut session = secured(TlsPolicy::On, &[Access::Denied]);
    let outcome = after(&mut session, &options().option(opt::EXPORT_NAME, b"disk"));
    assert_eq!(outcome.events, [Decoded::Close(CloseReason::DeniedExport)]);
    assert_eq!((outcome.output.as_slice(), session.take_denied()), (&b""[..], Some(0)));
}
