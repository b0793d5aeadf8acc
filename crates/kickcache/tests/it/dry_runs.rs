//! Checks before a change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Output;

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::reload::{Reloadable, volume_of};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, skip, tools};

/// A group that the tests' user is not in otherwise.
const GROUP: u32 = 65_534;

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = tools::output(KICKCACHE, arguments);
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn quiet(reloadable: &Reloadable) -> Daemon {
    let daemon = reloadable.start(&["one", "two"]);
    reloadable.connect("two").write(0, &[7; 8192]);
    daemon
}

const LINES: &str = "mode = \"write-back\"\nidle-after = \"1h\"";

#[test]
fn an_add_that_is_only_checked_changes_no_state() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let origin = reloadable.scratch.sparse("two", 24 * MIB);
    let nbd = format!("unix:{}", reloadable.socket("two").display());
    let cache = reloadable.spec.cache.display().to_string();
    let add = |origin: &str, more: &[&str]| {
        let words = ["add", "--cache", &cache, "--origin", origin, "--name", "two", "--nbd", &nbd];
        reloadable.try_control(&[&words, more].concat())
    };
    let origin = origin.to_str().unwrap();
    let checked = add(origin, &["--dry-run"]);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "two: can be added\n");
    assert!(volume_of(&daemon, "two").is_none() && !reloadable.socket("two").exists());
    let refused = add("/nowhere", &["--dry-run"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let used = add(reloadable.scratch.path("one").to_str().unwrap(), &["--dry-run"]);
    assert!(String::from_utf8_lossy(&used.stderr).contains("is that of volume one"), "{used:?}");
    assert!(add(origin, &[]).status.success());
    let served = add(origin, &["--dry-run"]);
    assert_eq!(String::from_utf8_lossy(&served.stdout), "two: is served already\n");
    assert!(volume_of(&daemon, "two").is_some());
    daemon.stop();
}

#[test]
fn a_removal_that_is_only_checked_names_dirty_blocks() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", LINES), ("two", LINES)]);
    let daemon = quiet(&reloadable);
    let said = |arguments: &[&str]| daemon.control(arguments);
    assert_eq!(said(&["remove", "one", "--dry-run"]), "one: can be removed; its origin has all data\n");
    assert_eq!(
        said(&["remove", "two", "--dry-run"]),
        "two: can be removed; 8 KiB of dirty blocks are written back before\n"
    );
    let lost = said(&["remove", "two", "--abandon-dirty", "--dry-run"]);
    assert_eq!(lost, "two: can be removed; 8 KiB of dirty blocks would be LOST\n");
    let client = reloadable.connect("two");
    assert!(reloadable.refusal(&["remove", "two", "--dry-run"], 1).contains("1 client is connected"));
    said(&["remove", "two", "--disconnect", "--dry-run"]);
    drop(client);
    assert_eq!(reloadable.connect("two").read(0, 8192), [7; 8192]);
    assert!(volume_of(&daemon, "one").is_some());
    daemon.stop();
}

#[test]
fn a_reload_that_is_only_checked_opens_new_devices() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    let daemon = reloadable.start(&["one", "two"]);
    reloadable.write(&[("one", ""), ("two", ""), ("three", "")]);
    let added = daemon.control(&["reload", "--dry-run"]);
    assert!(added.starts_with("three: ") && volume_of(&daemon, "three").is_none(), "{added}");
    assert!(!reloadable.socket("three").exists(), "it is not left there");
    let origin = reloadable.scratch.path("three");
    fs::remove_file(&origin).unwrap();
    let refusals = [&["reload", "--dry-run"][..], &["reload"]].map(|command| reloadable.refusal(command, 1));
    assert!(refusals[0].contains(origin.to_str().unwrap()), "{refusals:?}");
    assert_eq!(refusals[0], refusals[1]);
    reloadable.scratch.sparse("three", 24 * MIB);
    assert_eq!(daemon.control(&["reload"]), added);
    daemon.stop();
}

#[test]
fn a_mode_that_is_only_planned_is_not_set() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", LINES)]);
    let daemon = quiet(&reloadable);
    let planned = |volume: &str, mode: &str| daemon.control(&["mode", volume, mode, "--dry-run"]);
    assert_eq!(planned("two", "write-back"), "two: is write-back already\n");
    assert_eq!(
        planned("two", "bypass"),
        "two: write-back -> bypass; 8 KiB of dirty blocks are written back\n"
    );
    assert_eq!(daemon.control(&["mode", "two"]), "write-back\n");
    assert!(
        reloadable
            .refusal(&["mode", "three", "bypass", "--dry-run"], 1)
            .contains("there is no volume `three` here")
    );
    daemon.control(&["mode", "two", "bypass"]);
    daemon.control(&["drain", "two", "--wait"]);
    assert_eq!(planned("two", "write-back"), "two: bypass -> write-back\n");
    daemon.stop();
}

#[test]
fn a_configuration_file_is_checked_without_a_daemon() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", LINES)]);
    let file = reloadable.scratch.path("config.toml");
    let path = file.to_str().unwrap();
    let (code, out, _) = output(&["check-config", path]);
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with(&format!("{path}: good; 2 volumes on 1 cache device would be served\n")),
        "{out}"
    );
    assert!(out.contains("\ntwo: write-back, origin ") && !reloadable.spec.cache.exists(), "{out}");
    reloadable.write(&[("one", "mode = \"write-bak\"")]);
    let (code, _, said) = output(&["check-config", path]);
    assert!(code == Some(2) && said.contains("config.toml, line") && said.contains("write-bak"), "{said}");
    let (code, _, said) = output(&["check-config", "/nowhere.toml"]);
    assert!(code == Some(2) && said.contains("/nowhere.toml"), "{code:?} {said}");
}

#[test]
fn monitoring_without_root_reads_the_status_only() {
    need_kickcache!();
    need_tools!("setpriv");
    if !tools::is_root() {
        skip!("only root can be another user");
    }
    let scratch = Scratch::new();
    let status = scratch.path("status/status.sock");
    let extra = ["--status-socket".into(), status.clone().into()].to_vec();
    let origin = scratch.sparse("origin", 16 * MIB);
    let spec = Spec { extra, ..Spec::new(&scratch, &origin, "write-back", "16M") };
    let shell = ["-c", "umask 077; exec \"$0\" \"$@\"", KICKCACHE].map(Into::into);
    let command = guarded("sh", shell.into_iter().chain(spec.arguments()).collect());
    let daemon = Daemon::start(command, spec.clone(), &[spec.socket()]);
    // By default, the test's folder hides the socket from other users.
    for path in [scratch.dir(), status.parent().unwrap(), &status] {
        chown(path, None, Some(GROUP)).unwrap();
    }
    fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o750)).unwrap();
    let program = fs::copy(KICKCACHE, scratch.path("kickcache")).map(|_| scratch.path("kickcache")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |group: &str, arguments: &[&str]| {
        let own = ["--reuid=65534", group, "--clear-groups", program.to_str().unwrap()];
        let control = ["--control", status.to_str().unwrap()];
        tools::output("setpriv", [&own, arguments, &control].concat())
    };
    let member = |arguments: &[&str]| run("--regid=65534", arguments);
    let good = member(&["status", "--check"]);
    assert_eq!(String::from_utf8_lossy(&good.stdout), "good: 1 volume is served\n", "{good:?}");
    let one: Value = serde_json::from_slice(&member(&["status", VOLUME, "--json"]).stdout).unwrap();
    assert_eq!(one["caches"][0]["volumes"][0]["name"], VOLUME);
    for change in
        [&["mode", VOLUME, "bypass"][..], &["drain", VOLUME], &["stop"], &["reload"], &["remove", VOLUME]]
    {
        let refused = member(change);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(1) && said.contains("the status socket permits no changes"),
            "{said}"
        );
    }
    assert!(!daemon.log().contains("request of user 65534"), "{}", daemon.log());
    assert_eq!(daemon.control(&["mode", VOLUME]), "write-back\n");
    daemon.stop();
    assert!(!status.exists());
}

#[test]
fn a_start_prints_its_addresses_and_the_recovered_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let extra = ["--metrics", "tcp:127.0.0.1:0", "--idle-after", "1h"].map(Into::into).to_vec();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec { extra, ..Spec::new(&scratch, &origin, "write-back", "16M") }.start();
    daemon.connect().write(0, &[7; 8192]);
    let first = daemon.log();
    for part in ["live page: http://127.0.0.1:", "\nstate directory: ", "\ncontrol socket: "] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("recovered"), "{first}");
    let daemon = daemon.kill().start();
    daemon.wait_for_log(&["v: 2 dirty blocks recovered in ", " s"]);
    daemon.stop();
}
