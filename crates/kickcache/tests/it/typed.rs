//! Commands in messages work in a shell that does not know the daemon's state directory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bad_input::{refused, unchanged};
use crate::client::{Request, WRITE};
use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, tools};

const BYTES: usize = 65536;
const STATE: &str = "it's a $state";

/// The state directory is not the default one, and its name needs quoting in a shell.
fn spec(scratch: &Scratch, mode: &'static str) -> Spec {
    let state = scratch.path(STATE);
    // Dirty blocks stay dirty, however late a slow machine stops the daemon.
    let mut extra: Vec<OsString> =
        ["--admission", "always", "--idle-after", "24h", "--state"].map(Into::into).to_vec();
    extra.push(state.into());
    let spec = Spec::new(scratch, &scratch.sparse("the \"origin\"", 16 * MIB), mode, "8M");
    with_cache(&Spec { extra, ..spec }, "one")
}

fn with_cache(spec: &Spec, name: &str) -> Spec {
    Spec { cache: spec.dir.join(format!("the cache {name}")), ..spec.clone() }
}

fn and(spec: &Spec, more: &[&str]) -> Spec {
    let mut spec = spec.clone();
    spec.extra.extend(more.iter().map(Into::into));
    spec
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn write(spec: &Spec, byte: u8) {
    let daemon = spec.start();
    daemon.connect().write(0, &[byte; BYTES]);
    daemon.stop();
}

fn reads(spec: &Spec, byte: u8) {
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), [byte; BYTES]);
    daemon.stop();
}

fn is_on_origin(spec: &Spec, byte: u8) {
    assert!(fs::read(&spec.origin).unwrap()[..BYTES] == [byte; BYTES], "not what {byte} wrote");
}

fn type_command(said: &str, name: &str) -> String {
    let command = printed_command(said, name);
    let folder = Path::new(KICKCACHE).parent().unwrap();
    let path = format!("PATH={}:$PATH; {command}", text(folder));
    tools::run("sh", ["-c", &path])
}

/// The command of this name that a message prints, up to its end.
fn printed_command(said: &str, name: &str) -> String {
    let lines = said.replace('\n', " ");
    let start = lines.find(&format!("kickcache {name} ")).unwrap_or_else(|| panic!("no {name}: {said}"));
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_inside = |c: &char| {
        is_quoted ^= *c == '\'' && !is_escaped;
        is_escaped = *c == '\\' && !is_quoted;
        is_quoted || !");`".contains(*c)
    };
    lines[start..].chars().take_while(is_inside).collect()
}

#[test]
fn the_command_of_a_refused_detach_drains_the_volume() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec, 1);
    let state = scratch.path(STATE);
    let detach = ["detach", text(&spec.cache), VOLUME, "--state", text(&state)];
    let said = refused("dirty blocks", &detach.map(OsString::from));
    type_command(&said, "drain");
    is_on_origin(&spec, 1);
    tools::run(KICKCACHE, detach);
}

#[test]
fn the_command_after_a_missing_dirty_cache_drains_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    write(&one, 1);
    let two = with_cache(&one, "two");
    let said = refused("another cache device", &two.arguments());
    type_command(&said, "drain");
    is_on_origin(&one, 1);
    reads(&two, 1);
    write(&two, 2);
    let said = refused("another cache device", &one.arguments());
    type_command(&said, "drain");
    is_on_origin(&one, 2);
}

#[test]
fn the_command_for_an_outdated_cache_device_writes_it_back() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    write(&one, 1);
    let two = and(&with_cache(&one, "two"), &["--new-cache"]);
    reads(&two, 0);
    let said = refused("an outdated cache device", &one.arguments());
    type_command(&said, "drain");
    is_on_origin(&one, 1);
    reads(&one, 1);
}

/// The device was away while its volume was served without it.
#[test]
fn the_commands_for_a_bypassed_device_accept_older_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec, 1);
    let away = scratch.path("away");
    fs::rename(&spec.cache, &away).unwrap();
    and(&spec, &["--without-cache", "--lose-dirty"]).start().stop();
    fs::rename(&away, &spec.cache).unwrap();
    let (cache, state) = (text(&spec.cache), scratch.path(STATE));
    let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(Into::into).collect() };
    let commands = [
        words(&["format", cache, "--state", text(&state)]),
        words(&["detach", cache, VOLUME, "--state", text(&state)]),
        and(&spec, &["--without-cache"]).arguments(),
    ];
    let said = commands.map(|command| refused("dirty blocks", &command));
    for said in &said {
        assert!(printed_command(said, "drain").contains("--accept-older"), "{said}");
    }
    type_command(&said[2], "drain");
    is_on_origin(&spec, 1);
}

#[test]
fn the_commands_for_an_older_copy_drain_and_format_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec, 1);
    let copy = scratch.path("copy");
    fs::copy(&spec.cache, &copy).unwrap();
    write(&spec, 2);
    fs::copy(&copy, &spec.cache).unwrap();
    let said = refused("an older copy", &spec.arguments());
    type_command(&said, "drain");
    is_on_origin(&spec, 1);
    type_command(&said, "format");
    reads(&spec, 1);
}

/// As a shell reads it.
fn printed_flag(said: &str, name: &str) -> String {
    let lines = said.replace('\n', " ");
    let start = lines.find(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {said}"));
    let (flag, _) = lines[start..].split_once(" to serve it").unwrap();
    tools::run("sh", ["-c", &format!("printf %s {flag}")])
}

/// The recorded device has been moved, so that no drain can find it by its path.
#[test]
fn the_command_for_an_exchanged_cache_device_is_no_drain() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec, 1);
    let moved = scratch.path("moved");
    fs::rename(&spec.cache, &moved).unwrap();
    let said = refused("a cache device that was moved", &spec.arguments());
    assert!(!said.contains("kickcache drain"), "{said}");
    let state = scratch.path(STATE);
    tools::run(KICKCACHE, ["format", text(&spec.cache), "--size", "8M", "--state", text(&state)]);
    let said = refused("another one in its place", &spec.arguments());
    assert!(!said.contains("kickcache drain") && said.contains("is another one"), "{said}");
    reads(&Spec { cache: moved.clone(), ..spec.clone() }, 1);
    fs::rename(&moved, scratch.path("away")).unwrap();
    let said = refused("another one in its place", &spec.arguments());
    let new = printed_flag(&said, "--new-cache");
    let daemon = and(&spec, &[&new]).start();
    let log = daemon.log();
    assert!(log.contains("WARN") && log.contains("gives up") && log.contains("may include dirty"), "{log}");
    daemon.connect().write(0, &[2; BYTES]);
    daemon.stop();
    fs::rename(scratch.path("away"), &spec.cache).unwrap();
    let said = refused("the first one again", &spec.arguments());
    assert!(!said.contains("kickcache drain"), "{said}");
    let new = printed_flag(&said, "--new-cache");
    let said = refused("older blocks", &and(&spec, &[&new]).arguments());
    type_command(&said, "drain");
    is_on_origin(&spec, 1);
    reads(&spec, 1);
}

#[test]
fn the_command_for_an_origin_formats_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-through");
    spec.start().stop();
    let origin = text(&spec.origin);
    let state = scratch.path(STATE);
    let format = ["format", origin, "--state", text(&state)].map(OsString::from);
    let said = unchanged("a known origin", &[&spec.origin], || refused("a known origin", &format));
    type_command(&said, "format");
}

#[test]
fn a_start_without_the_device_records_is_reported() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-through");
    let warning = "the state directory has no record for it";
    let starts = |spec: &Spec| {
        let daemon = spec.start();
        let log = daemon.log();
        daemon.stop();
        log
    };
    for _ in 0..2 {
        let log = starts(&spec);
        assert!(!log.contains(warning), "{log}");
    }
    let mut elsewhere = spec.clone();
    elsewhere.extra.extend(["--state".into(), scratch.path("elsewhere").into()]);
    elsewhere.extra.drain(4..6);
    let log = starts(&elsewhere);
    assert!(log.contains(warning), "{log}");
}

#[test]
fn a_drain_without_records_overwrites_no_newer_data() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    write(&one, 1);
    let two = and(&with_cache(&one, "two"), &["--new-cache"]);
    let daemon = two.start();
    daemon.connect().write(0, &[2; BYTES]);
    daemon.drain();
    daemon.stop();
    let state = scratch.path(STATE);
    let drain = |more: &[&str]| {
        let mut words: Vec<OsString> = ["drain", "--cache", text(&one.cache)].map(Into::into).to_vec();
        words.extend(more.iter().map(Into::into));
        words
    };
    for (arguments, wanted) in [
        (drain(&[]), ["has no record for it", "--state"]),
        (drain(&["--state", text(&state)]), ["older", "two"]),
    ] {
        let said =
            unchanged("older blocks", &[&one.origin, &one.cache], || refused("older blocks", &arguments));
        for part in wanted.into_iter().chain(["16 dirty blocks", "--accept-older"]) {
            assert!(said.contains(part), "no `{part}`: {said}");
        }
    }
    // Without the host of the cache device and its records, only the device names the origin.
    let said = unchanged("an origin without a record", &[&one.origin, &one.cache], || {
        refused("an origin without a record", &drain(&["--accept-older"]))
    });
    assert!(said.contains("--origin"), "{said}");
    let said = tools::run(KICKCACHE, drain(&["--accept-older", "--origin", text(&one.origin)]));
    assert!(said.contains("64 KiB written back") && said.contains("was removed from"), "{said}");
    is_on_origin(&one, 1);
    assert!(tools::run(KICKCACHE, ["inspect", text(&one.cache)]).contains("VOLUME"), "it can be read");
    refused("no volume is left", &drain(&[]));
}

#[test]
fn an_unrecorded_drain_of_a_clean_device_changes_no_data() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    let daemon = one.start();
    daemon.connect().write(0, &[1; BYTES]);
    daemon.drain();
    daemon.stop();
    let elsewhere = scratch.path("elsewhere");
    for more in [&["--accept-older"][..], &[]] {
        let said = unchanged("has no dirty blocks", &[&one.origin, &one.cache], || {
            let mut words = vec!["drain", "--cache", text(&one.cache), "--state", text(&elsewhere)];
            words.extend(more);
            tools::run(KICKCACHE, words)
        });
        assert!(said.contains("has no dirty blocks"), "{said}");
    }
}

#[test]
fn the_commands_for_a_failed_device_drain_and_format_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let extra = spec(&scratch, "write-back").extra;
    let daemon = Spec { extra, ..disks.spec(&scratch, "write-back") }.start();
    disks.tell("fault origin write eio");
    let mut client = daemon.connect();
    client.write(0, &[1; BYTES]);
    disks.tell("fault cache write eio");
    let write = Request { command: WRITE, flags: 0, offset: MIB, length: 4096 };
    (0..40).for_each(|_| _ = client.call(write, &[2; 4096]).unwrap().errno);
    disks.tell("clear");
    let said = daemon.log();
    let line = said.lines().find(|line| line.contains("is out of service: volumes go on")).unwrap();
    let page = daemon.control(&["status"]);
    for told in [line, &page] {
        for (name, parts) in
            [("drain", [VOLUME, "--wait", "--control"]), ("format", [" a $state", "cache", "--state"])]
        {
            let command = printed_command(told, name);
            assert!(parts.iter().all(|part| command.contains(part)), "{command}: {told}");
        }
    }
    type_command(line, "drain");
    drop(client);
    let spec = daemon.stop();
    is_on_origin(&spec, 1);
    type_command(line, "format");
}

#[test]
fn the_command_for_a_changed_origin_detaches_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec, 1);
    let said = refused("a changed origin", &and(&spec, &["--origin-changed"]).arguments());
    assert!(type_command(&said, "detach").contains("LOST"));
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name != "tests" => found.extend(sources(&path)),
            false if name.ends_with(".rs") && !name.contains("tests") => found.push(path),
            true | false => {}
        }
    }
    found
}

/// Commands in the strings of a source file, except in help texts.
fn commands_in(source: &str) -> Vec<String> {
    const NAMES: [&str; 13] = [
        "serve", "format", "drain", "detach", "check", "status", "mode", "stop", "resize", "inspect", "dump",
        "simulate", "man",
    ];
    let product = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut is_help = false;
    let mut found = Vec::new();
    for line in product.lines() {
        is_help |= line.contains("const ") && line.contains(": &str = \"");
        let is_comment = line.trim_start().starts_with("//");
        let is_command = |name: &&str| {
            line.match_indices("kickcache ").any(|(at, it)| {
                let rest = line[at + it.len()..].strip_prefix(*name);
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            })
        };
        // A command that is split by the end of a line.
        let is_broken = line.ends_with("(kickcache \\") || line.ends_with("`kickcache \\");
        if !is_help && !is_comment && (is_broken || NAMES.iter().any(is_command)) {
            found.push(line.trim().to_owned());
        }
        is_help &= !line.ends_with("\";");
    }
    found
}

#[test]
fn commands_in_messages_are_built_by_one_module_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = ["kickcache-daemon", "kickcache", "kickcache-command", "kickcache-lab"]
        .map(|name| crates.join(name).join("src"));
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| sources(folder)).collect();
    assert!(files.len() > 150, "{files:?}");
    let mut found = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with("kickcache-daemon/src/shell_command.rs")) {
        let commands = commands_in(&fs::read_to_string(path).unwrap());
        found.extend(commands.iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(found.is_empty(), "say it with ShellCommand:\n{}", found.join("\n"));
}

#[test]
fn commands_are_found_in_messages_but_not_in_help_texts() {
    let source = "const HELP: &str = \"\\\n  kickcache stop\n  kickcache drain v\";\n/// `kickcache stop`\n";
    assert!(commands_in(source).is_empty());
    for line in ["x(\"kickcache drain {name}\")", "\"say (kickcache \\", "\"`kickcache stop`\""] {
        assert_eq!(commands_in(&format!("{source}{line}\n")), [line]);
    }
}
