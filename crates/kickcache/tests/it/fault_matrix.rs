//! The quick part of `scripts/fault-matrix`.

use std::path::Path;

use crate::daemon::KICKCACHE;
use crate::faulty::FAULTDISK;
use crate::{disk, need_kickcache, skip, tools};

#[test]
fn faults_at_each_write_of_a_growth_lose_no_data() {
    need_kickcache!();
    if let Some(why) = disk::missing() {
        skip!("{why}");
    }
    let python = "/usr/bin/python3";
    if !tools::output(python, ["-c", "import nbd"]).status.success() {
        skip!("python3-libnbd is not installed");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fault-matrix");
    let said = tools::run(python, [script.to_str().unwrap(), KICKCACHE, FAULTDISK, "--quick"]);
    let last = said.lines().last().unwrap();
    let rows: u32 = last.strip_suffix(" rows, 0 bad").and_then(|rows| rows.parse().ok()).expect(last);
    // A slow machine may add writes of the log.
    assert!(rows >= 10, "{said}");
}
