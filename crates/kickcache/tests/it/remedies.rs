//! Commands that messages name.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::reload::Reloadable;
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{need_kickcache, tools};

pub(crate) fn remedy(said: &str) -> String {
    let begin = said.find("(kickcache ").unwrap_or_else(|| panic!("no command: {said}")) + 1;
    let end = said[begin..].find(')').unwrap() + begin;
    said[begin..end].to_owned()
}

pub(crate) fn follow(command: &str) -> Output {
    let line = command.replacen("kickcache", KICKCACHE, 1);
    Command::new("sh").args(["-c", &line]).env("KICKCACHE_STATE", state_dir()).output().unwrap()
}

/// A cache device with clean blocks of `four`, and a configuration without `four`. After a kill the record of
/// `four` has the dirty flag.
fn with_an_unserved_volume() -> Reloadable {
    let reloadable = Reloadable::new(&[("one", ""), ("four", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one", "four"]);
    reloadable.connect("four").write(0, &[7; 4096]);
    daemon.control(&["drain", "four", "--wait"]);
    daemon.kill();
    reloadable.write(&[("one", "")]);
    reloadable
}

fn add_four<'a>(reloadable: &Reloadable, cache: &'a str, more: &[&'a str]) -> Vec<String> {
    let (origin, socket) = (reloadable.scratch.path("four"), reloadable.socket("four"));
    let (origin, nbd) = (origin.display().to_string(), format!("unix:{}", socket.display()));
    let own = ["add", "--cache", cache, "--origin", &origin, "--name", "four", "--nbd", &nbd];
    own.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_volume_that_is_not_served_is_left_out_too() {
    need_kickcache!();
    let reloadable = with_an_unserved_volume();
    let daemon = reloadable.start(&["one"]);
    let other = reloadable.scratch.path("other").display().to_string();
    daemon.control(&["leave-out"]);
    daemon.control(&["replace", "--with", &other, "--size", "16M"]);
    // docs/how-to/leave-out.md: the drive can be pulled.
    fs::remove_file(&reloadable.spec.cache).unwrap();
    let adding = add_four(&reloadable, &other, &[]);
    let said = daemon.control(&words(&adding));
    assert!(said.starts_with("four: added"), "{said}");
    // The user repeats a command if its reply was lost.
    let said = daemon.control(&words(&adding));
    assert!(said.starts_with("four: is served already"), "{said}");
    reloadable.refusal(&words(&add_four(&reloadable, &other, &["--mode", "bypass"])), 1);
    assert_eq!(reloadable.connect("four").read(0, 4096), vec![7; 4096]);
    daemon.stop();
}

#[test]
fn a_drain_of_a_clean_device_clears_its_record() {
    need_kickcache!();
    let reloadable = with_an_unserved_volume();
    let first = reloadable.spec.cache.clone();
    let text = fs::read_to_string(reloadable.scratch.path("config.toml")).unwrap();
    let other = reloadable.scratch.path("other").display().to_string();
    reloadable.write_text(&text.replace(first.to_str().unwrap(), &other));
    let arguments = ["drain", "one", "--cache", first.to_str().unwrap()];
    tools::run(KICKCACHE, arguments);
    let daemon = reloadable.start(&["one"]);
    let adding = add_four(&reloadable, &other, &[]);
    let said = reloadable.refusal(&words(&adding), 1);
    assert!(said.contains("may hold blocks"), "{said}");
    let output = follow(&remedy(&said));
    assert!(output.status.success(), "{output:?}");
    daemon.control(&words(&adding));
    daemon.stop();
}

#[test]
fn the_flag_named_by_a_refused_add_is_valid() {
    need_kickcache!();
    let reloadable = with_an_unserved_volume();
    let first = reloadable.spec.cache.clone();
    tools::run(KICKCACHE, ["drain", "one", "--cache", first.to_str().unwrap()]);
    fs::remove_file(&first).unwrap();
    let text = fs::read_to_string(reloadable.scratch.path("config.toml")).unwrap();
    let other = reloadable.scratch.path("other").display().to_string();
    reloadable.write_text(&text.replace(first.to_str().unwrap(), &other));
    let daemon = reloadable.start(&["one"]);
    let said = reloadable.refusal(&words(&add_four(&reloadable, &other, &[])), 1);
    let flag = said.split_whitespace().find(|word| word.starts_with("--new-cache=")).unwrap();
    let wrong = reloadable.refusal(&words(&add_four(&reloadable, &other, &["--new-cache=/dev/x"])), 2);
    assert!(wrong.contains("name the same"), "{wrong}");
    daemon.control(&words(&add_four(&reloadable, &other, &[flag])));
    daemon.stop();
}

/// Hands connections to a socket on to another one.
fn relay(listener: UnixListener, to: &Path) {
    let to = to.to_owned();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = UnixStream::connect(&to).unwrap();
            let (mut near_too, mut far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || pass(&mut near_too, &mut far_too));
            let (mut near, mut far) = (near, far);
            thread::spawn(move || pass(&mut far, &mut near));
        }
    });
}

fn pass(from: &mut UnixStream, to: &mut UnixStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _: io::Result<()> = to.shutdown(Shutdown::Write);
}

#[test]
fn an_export_of_the_same_daemon_is_no_origin() {
    need_kickcache!();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    spec.extra = ["--nbd", &format!("tcp:127.0.0.1:{port}")].map(Into::into).to_vec();
    let daemon = spec.start();
    let (link, relayed) = (scratch.path("link.sock"), scratch.path("relay.sock"));
    symlink(spec.socket(), &link).unwrap();
    relay(UnixListener::bind(&relayed).unwrap(), &spec.socket());
    let unix = |path: &Path, export: &str| format!("nbd+unix:///{export}?socket={}", path.display());
    let origins = [
        unix(&spec.socket(), VOLUME),
        unix(&spec.socket(), "other"),
        unix(&link, VOLUME),
        unix(&relayed, VOLUME),
        format!("nbd://127.0.0.1:{port}/{VOLUME}"),
        format!("nbd://localhost:{port}/{VOLUME}"),
    ];
    let cache = spec.cache.to_str().unwrap();
    let nbd = format!("unix:{}", scratch.path("two.sock").display());
    for origin in &origins {
        let adding = ["add", "--cache", cache, "--origin", origin, "--name", "two", "--nbd", &nbd];
        let said = spec.refusal(&adding, 1);
        assert!(said.contains("is an export of this daemon"), "{origin}: {said}");
    }
    daemon.connect().write(0, &[7; 4096]);
    daemon.stop();
}
