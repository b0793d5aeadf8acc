//! The daemon's log.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

#[test]
fn lines_provoked_by_strangers_are_limited_and_counted() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut daemon = spec(&scratch).start();
    (0..12).for_each(|_| provoke_a_line(&daemon.spec));
    daemon.signal(Signal::TERM);
    let status = daemon.wait();
    daemon.check_end(status);
    let log = daemon.log();
    assert_eq!(log.matches("the virtual machine of v is disconnected: ").count(), 5, "{log}");
    assert!(log.contains("virtual machines of v were disconnected: and 7 more in "), "{log}");
}

#[test]
fn a_log_of_json_has_an_event_in_each_line() {
    need_kickcache!();
    let log = whole_log(["--log-format", "json"]);
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        assert!(["time", "level", "event", "message"].iter().all(|key| line[key].is_string()), "{line}");
    }
    for (event, level) in [("started", "info"), ("guest_connection_closed", "warn"), ("stopped", "info")] {
        assert!(lines.iter().any(|line| line["event"] == event && line["level"] == level), "{event}: {log}");
    }
    // These lines of the start are text.
    let text = log.lines().filter(|line| !line.starts_with('{'));
    let starts = ["kickcache ", "volume v", "control socket: ", "state directory: "];
    assert!(text.clone().all(|line| starts.iter().any(|it| line.starts_with(it))), "{log}");
}

#[test]
fn a_log_of_warnings_does_not_mention_the_start() {
    need_kickcache!();
    let log = whole_log(["--log-level", "warn"]);
    assert!(
        log.contains(" WARN the virtual machine of v is disconnected: ") && !log.contains(" INFO "),
        "{log}"
    );
}

/// From the start of a daemon to its end.
fn whole_log(option: [&str; 2]) -> String {
    let scratch = Scratch::new();
    let mut asked = spec(&scratch);
    asked.extra.extend(option.map(Into::into));
    let mut daemon = asked.start();
    provoke_a_line(&daemon.spec);
    daemon.signal(Signal::TERM);
    let status = daemon.wait();
    daemon.check_end(status);
    daemon.log()
}

fn spec(scratch: &Scratch) -> Spec {
    let mut spec = Spec::new(scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M");
    spec.extra.extend(["--vhost-user".into(), scratch.path("guest.sock").into()]);
    spec
}

/// Breaks the rules of vhost-user, which causes a warning.
fn provoke_a_line(spec: &Spec) {
    let mut stranger = UnixStream::connect(spec.dir.join("guest.sock")).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stranger.write_all(&[0xff; 12]).unwrap();
    let end = stranger.read(&mut [0; 1]);
    let is_end = end.as_ref().is_ok_and(|count| *count == 0)
        || end.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
    assert!(is_end, "the stranger was not thrown out: {end:?}");
}

fn serve_with_a_log_to(stderr: impl Into<Stdio>) {
    let scratch = Scratch::new();
    let spec = spec(&scratch);
    let mut command = guarded(KICKCACHE, spec.arguments());
    command.stdout(Stdio::null()).stderr(stderr);
    let socket = spec.socket();
    let mut daemon = Daemon::start_as_it_is(command, spec, &[socket]);
    (0..3).for_each(|_| provoke_a_line(&daemon.spec));
    let mut client = daemon.connect();
    client.write(4096, &[7; 4096]);
    assert_eq!(client.read(4096, 4096), vec![7; 4096]);
    drop(client);
    daemon.signal(Signal::TERM);
    let status = daemon.wait();
    daemon.check_end(status);
}

#[test]
fn a_log_on_a_full_disk_ends_no_daemon() {
    need_kickcache!();
    serve_with_a_log_to(File::options().write(true).open(Path::new("/dev/full")).unwrap());
}

#[test]
fn a_log_without_a_reader_does_not_end_the_daemon() {
    need_kickcache!();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    serve_with_a_log_to(writer);
}

#[test]
fn a_sleeping_log_reader_does_not_stop_the_daemon() {
    need_kickcache!();
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    let size = rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    assert_eq!(rustix::io::write(&writer, &vec![0; size]).unwrap(), size, "the pipe is full then");
    serve_with_a_log_to(writer);
}
