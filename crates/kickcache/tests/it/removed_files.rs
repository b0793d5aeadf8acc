//! Files that are removed while they are served.

use std::fs;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{Daemon, Spec, VOLUME};
use crate::reload::Reloadable;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

const BLOCK: usize = 4096;

/// A daemon with a dirty block.
fn dirty(scratch: &Scratch) -> Daemon {
    let origin = scratch.sparse("origin", 16 * MIB);
    let mut spec = Spec::new(scratch, &origin, "write-back", "16M");
    spec.extra = ["--idle-after", "1h"].map(Into::into).to_vec();
    let daemon = spec.start();
    daemon.connect().write(0, &[7; BLOCK]);
    daemon
}

/// The sentence of a command that fails.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The copy command in a sentence, with the name of the copy.
fn copy(said: &str, to: &str) -> String {
    let (_, rest) = said.split_once("(`cp ").unwrap_or_else(|| panic!("no command: {said}"));
    let (arguments, _) = rest.split_once(" FILE`)").unwrap();
    format!("cp {arguments} '{to}'")
}

fn condition(daemon: &Daemon) -> Option<Value> {
    let conditions = daemon.status()["conditions"].as_array().unwrap().clone();
    conditions.into_iter().find(|condition| condition["kind"] == "file-unlinked")
}

#[test]
fn the_data_of_a_removed_origin_can_be_saved() {
    need_kickcache!();
    for how in ["removed", "replaced"] {
        let scratch = Scratch::new();
        let daemon = dirty(&scratch);
        assert_eq!(condition(&daemon), None);
        match how {
            "removed" => fs::remove_file(&daemon.spec.origin).unwrap(),
            _ => fs::rename(scratch.sparse("other", 16 * MIB), &daemon.spec.origin).unwrap(),
        }
        let found = condition(&daemon).unwrap();
        assert_eq!((&found["volume"], &found["severity"]), (&Value::from(VOLUME), &Value::from("error")));
        for stop in [&["stop"][..], &["stop", "--drain"], &["stop", "--no-wait"]] {
            let said = refused(&daemon.spec.try_control(stop));
            assert!(said.contains("does not stop") && said.contains("--lose-unlinked"), "{said}");
        }
        assert_eq!(daemon.status()["caches"][0]["volumes"][0]["mode"], "write-back");
        let said = refused(&daemon.spec.try_control(&["drain", VOLUME, "--wait"]));
        assert!(said.contains("drained, but"), "{said}");
        let saved = scratch.path("saved");
        tools::run("sh", ["-c", &copy(&said, saved.to_str().unwrap())]);
        assert!(said.contains(&format!("--origin-moved={VOLUME}")), "{said}");
        let said = refused(&daemon.spec.try_control(&["stop", "--lose-unlinked"]));
        assert!(said.contains("data are lost") && said.contains("the origin of v"), "{said}");
        let mut spec = daemon.spec.clone();
        drop(daemon);
        spec.origin = saved;
        spec.extra.push(format!("--origin-moved={VOLUME}").into());
        let daemon = spec.start();
        assert_eq!(daemon.connect().read(0, 4096), [7; BLOCK]);
        daemon.stop();
    }
}

#[test]
fn a_stop_by_a_signal_reports_a_removed_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut daemon = dirty(&scratch);
    fs::remove_file(&daemon.spec.origin).unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(8), "{}", daemon.log());
    assert!(daemon.log().contains("data are lost"), "{}", daemon.log());
}

#[test]
fn dirty_blocks_of_a_removed_cache_file_are_written_back() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = dirty(&scratch);
    fs::remove_file(&daemon.spec.cache).unwrap();
    let said = refused(&daemon.spec.try_control(&["stop"]));
    assert!(said.contains("stop --drain") && said.contains("--lose-unlinked"), "{said}");
    let spec = daemon.spec.clone();
    daemon.control(&["stop", "--drain"]);
    drop(daemon);
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 4096), [7; BLOCK]);
    assert_eq!(condition(&daemon), None);
    daemon.drain();
    fs::remove_file(&spec.cache).unwrap();
    assert!(condition(&daemon).is_some());
    daemon.control(&["stop"]);
}

#[test]
fn an_unlinked_origin_is_given_up_by_order_only() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one", "two"]);
    reloadable.connect("two").write(0, &[7; BLOCK]);
    fs::remove_file(reloadable.scratch.path("two")).unwrap();
    let said = reloadable.refusal(&["remove", "two", "--disconnect"], 1);
    assert!(said.contains("was removed") && said.contains("--abandon-dirty"), "{said}");
    assert_eq!(reloadable.connect("two").read(0, 4096), [7; BLOCK]);
    daemon.control(&["remove", "two", "--disconnect", "--abandon-dirty"]);
    daemon.stop();
}
