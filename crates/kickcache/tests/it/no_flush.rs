//! Origins that cannot be flushed.

use std::process::{Command, Stdio};

use crate::client::{Request, WRITE};
use crate::daemon::KICKCACHE;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

#[test]
fn an_origin_without_flush_needs_an_explicit_flag() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    disks.tell("fault origin flush eio");
    let mut spec = disks.spec(&scratch, "write-back");
    let refused = Command::new(KICKCACHE).args(spec.arguments()).stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{told}");
    assert!(told.contains("cannot be flushed") && told.contains("--origin-no-flush"), "{told}");

    spec.extra = vec!["--origin-no-flush".into()];
    let daemon = spec.start();
    assert!(daemon.log().contains("cannot be flushed"), "{}", daemon.log());
    let mut client = daemon.connect();
    let request = Request { command: WRITE, flags: 1, offset: 0, length: 4096 };
    assert_eq!(client.call(request, &[7; 4096]).unwrap().errno, 0);
    drop(client);
    daemon.stop();
}
