//! The daemon's log: what clients can do to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::daemon::Spec;
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

#[test]
fn lines_that_strangers_provoke_are_written_a_few_times_and_then_counted() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M");
    let socket = scratch.path("guest.sock");
    spec.extra.extend(["--vhost-user".into(), socket.clone().into()]);
    let mut daemon = spec.start();
    for _ in 0..12 {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        stranger.write_all(&[0xff; 12]).unwrap();
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0, "it was answered");
    }
    daemon.signal(rustix::process::Signal::TERM);
    let status = daemon.wait();
    daemon.check_end(status);
    let log = daemon.log();
    assert_eq!(log.matches("the virtual machine of v is disconnected: ").count(), 5, "{log}");
    assert!(log.contains("virtual machines of v were disconnected: and 7 more in "), "{log}");
}
