//! A changed configuration file that a daemon reads again.

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{faulty_disks, need_kickcache, tools};

pub(crate) struct Reloadable {
    pub(crate) scratch: Scratch,
    pub(crate) spec: Spec,
}

impl Reloadable {
    /// A file with these volumes, each with its lines.
    pub(crate) fn new(volumes: &[(&str, &str)]) -> Reloadable {
        let scratch = Scratch::new();
        let spec = Spec::new(&scratch, &scratch.path("one"), "write-back", "16M");
        let reloadable = Reloadable { scratch, spec };
        reloadable.write(volumes);
        reloadable
    }

    pub(crate) fn write(&self, volumes: &[(&str, &str)]) {
        let mut text = format!(
            "control = \"{}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"16M\"\n",
            self.spec.control().display(),
            self.spec.cache.display()
        );
        for (name, lines) in volumes {
            let origin = self.scratch.path(name);
            if !origin.exists() {
                self.scratch.sparse(name, 24 * MIB);
            }
            text += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{}\"\n", origin.display());
            text += &format!("nbd = [\"unix:{}\"]\n{lines}\n", self.socket(name).display());
        }
        self.write_text(&text);
    }

    pub(crate) fn write_text(&self, text: &str) {
        fs::write(self.scratch.path("config.toml"), text).unwrap();
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.scratch.path(&format!("{name}.sock"))
    }

    fn command(&self) -> std::process::Command {
        let arguments: Vec<OsString> =
            vec!["serve".into(), "--config".into(), self.scratch.path("config.toml").into()];
        guarded(KICKCACHE, arguments)
    }

    pub(crate) fn start(&self, names: &[&str]) -> Daemon {
        let sockets: Vec<PathBuf> = names.iter().map(|name| self.socket(name)).collect();
        Daemon::start(self.command(), self.spec.clone(), &sockets)
    }

    pub(crate) fn connect(&self, name: &str) -> Client {
        Client::connect(&self.socket(name), name).unwrap()
    }

    /// A client of a volume's socket that names no volume.
    pub(crate) fn unnamed(&self, name: &str) -> std::io::Result<Client> {
        Client::connect(&self.socket(name), "")
    }

    pub(crate) fn try_control(&self, arguments: &[&str]) -> Output {
        self.spec.try_control(arguments)
    }

    /// Returns the standard error.
    pub(crate) fn refusal(&self, arguments: &[&str], code: i32) -> String {
        self.spec.refusal(arguments, code)
    }
}

pub(crate) fn volume_of(daemon: &Daemon, name: &str) -> Option<Value> {
    let status = daemon.status();
    let caches = status["caches"].as_array().unwrap();
    let mut volumes = caches.iter().flat_map(|cache| cache["volumes"].as_array().unwrap());
    volumes.find(|volume| volume["name"] == name).cloned()
}

fn mode_of(daemon: &Daemon, name: &str) -> String {
    volume_of(daemon, name).unwrap()["mode"].as_str().unwrap().to_owned()
}

#[test]
fn a_reload_prints_and_applies_the_difference() {
    need_kickcache!();
    let plain = [("one", "idle-after = \"24h\""), ("two", "")];
    let reloadable = Reloadable::new(&plain);
    let daemon = reloadable.start(&["one", "two"]);
    let mut client = reloadable.connect("one");
    assert_eq!(daemon.control(&["reload"]), "no difference\n");
    let lines = "mode = \"write-back\"\ndirty-limit = \"50%\"\nidle-after = \"24h\"";
    reloadable.write(&[("one", lines), ("two", "")]);
    let expected = "one: mode write-through -> write-back\none: dirty-limit 70% -> 50%\n";
    assert_eq!(daemon.control(&["reload", "--dry-run"]), expected);
    assert_eq!(mode_of(&daemon, "one"), "write-through");
    let told: Value = serde_json::from_str(&daemon.control(&["reload", "--json"])).unwrap();
    assert_eq!(told["changes"][0]["change"], "setting");
    assert_eq!(told["changes"][0]["after"], "write-back");
    assert_eq!(
        (mode_of(&daemon, "one"), mode_of(&daemon, "two")),
        ("write-back".into(), "write-through".into())
    );
    assert_eq!(daemon.control(&["reload"]), "no difference\n");
    daemon.control(&["mode", "one", "bypass"]);
    assert_eq!(daemon.control(&["reload"]), "one: mode bypass -> write-back\n");
    client.write(0, &[7; 4096]);
    assert!(volume_of(&daemon, "one").unwrap()["dirty_bytes"].as_u64().unwrap() > 0, "it writes back");
    daemon.kill();
    let daemon = reloadable.start(&["one", "two"]);
    assert_eq!(reloadable.connect("one").read(0, 4096), vec![7; 4096]);
    daemon.stop();
}

#[test]
fn a_refused_reload_changes_no_state_and_exits_accordingly() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    let daemon = reloadable.start(&["one", "two"]);
    reloadable.write(&[("one", "mode = \"write-back\""), ("two", "read-only = true")]);
    for command in [&["reload"][..], &["reload", "--dry-run"]] {
        let said = reloadable.refusal(command, 1);
        assert!(
            said.contains("volume two: `read-only` is false in the daemon and true in the file"),
            "{said}"
        );
    }
    assert_eq!(mode_of(&daemon, "one"), "write-through");
    reloadable.write(&[("one", "mode = \"write-back\""), ("two", "mode = \"write-forth\"")]);
    let said = reloadable.refusal(&["reload"], 2);
    assert!(said.contains("config.toml, line ") && said.contains("write-forth"), "{said}");
    reloadable.write_text("[[cache]]\ndevice = \"/dev/fast\"\n");
    assert!(reloadable.refusal(&["reload"], 2).contains("has no volume"));
    fs::remove_file(reloadable.scratch.path("config.toml")).unwrap();
    assert!(reloadable.refusal(&["reload"], 2).contains("config.toml cannot be read"));
    assert_eq!(mode_of(&daemon, "one"), "write-through");
    daemon.stop();
    assert!(reloadable.refusal(&["reload"], 3).contains("no kickcache daemon answers"));
}

#[test]
fn a_reload_that_fails_lists_the_changes_made() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    let daemon = reloadable.start(&["one", "two"]);
    // Write-back requires a record of the origin, and a directory in its place prevents that.
    let files = fs::read_dir(state_dir()).unwrap().map(|file| file.unwrap().path());
    let is_record =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("\"volume\": \"one\""));
    let record = files.into_iter().find(is_record).unwrap();
    fs::remove_file(&record).unwrap();
    fs::create_dir_all(record.join("obstacle")).unwrap();
    reloadable.write(&[("one", "mode = \"write-back\"")]);
    let said = reloadable.refusal(&["reload"], 1);
    assert!(said.contains("these changes were made: two: removed from"), "{said}");
    daemon.wait_for_log(&["a step failed: volume one", "these changes were made: two: removed from"]);
    assert!(!daemon.log().contains("the daemon is unchanged"), "{}", daemon.log());
    let rest = "one: mode write-through -> write-back\n";
    assert_eq!(daemon.control(&["reload", "--dry-run"]), rest);
    fs::remove_dir_all(&record).unwrap();
    assert_eq!(daemon.control(&["reload"]), rest);
    daemon.stop();
}

#[test]
fn new_volumes_of_a_reload_share_a_new_address() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let text = fs::read_to_string(reloadable.scratch.path("config.toml")).unwrap();
    let shared = reloadable.scratch.path("shared.sock");
    let volume = |name: &str| {
        let origin = reloadable.scratch.sparse(name, 4 * MIB);
        let (origin, shared) = (origin.display(), shared.display());
        format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{origin}\"\nnbd = [\"unix:{shared}\"]\n")
    };
    reloadable.write_text(&(text + &volume("two") + &volume("three")));
    daemon.control(&["reload"]);
    for name in ["two", "three"] {
        assert_eq!(Client::connect(&shared, name).unwrap().size, 4 * MIB);
    }
    daemon.stop();
}

#[test]
fn a_removed_volume_has_no_mode_to_restore() {
    need_kickcache!();
    let mut reloadable = Reloadable::new(&[]);
    let disks = faulty_disks!(&reloadable.scratch, &[("cache", 16 * MIB)]);
    reloadable.spec.cache = disks.file("cache").into();
    reloadable.write(&[("one", ""), ("two", "")]);
    let daemon = reloadable.start(&["one", "two"]);
    disks.tell("fault cache write eio 0+8192");
    let said = reloadable.refusal(&["remove", "two"], 1);
    assert!(said.contains("it is not served any more, but its name stays"), "{said}");
    disks.tell("clear");
    daemon.control(&["mode", "one", "write-around"]);
    daemon.wait_for_log(&["the mode of one"]);
    assert!(!daemon.log().contains("the mode of two stays"), "{}", daemon.log());
    daemon.kill();
}

#[test]
fn a_reload_without_a_file_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M").start();
    let control = daemon.spec.control();
    let output = tools::output(KICKCACHE, ["reload", "--control", control.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("was started with flags"), "{said}");
    daemon.stop();
}

#[test]
fn sighup_reloads_and_notifies_systemd() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let path = reloadable.scratch.path("notify");
    let told = UnixDatagram::bind(&path).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = reloadable.command();
    command.env("NOTIFY_SOCKET", &path);
    let daemon = Daemon::start(command, reloadable.spec.clone(), &[reloadable.socket("one")]);
    let hear = |wanted: &str| {
        let (mut heard, mut bytes) = (String::new(), [0; 4096]);
        while !heard.contains(wanted) {
            let length = told.recv(&mut bytes).unwrap_or_else(|error| panic!("{error} after {heard}"));
            heard += std::str::from_utf8(&bytes[..length]).unwrap();
        }
        heard
    };
    hear("READY=1");
    reloadable.write(&[("one", "mode = \"write-around\"")]);
    daemon.signal(Signal::HUP);
    assert!(hear("RELOADING=1").contains("RELOADING=1\nMONOTONIC_USEC="));
    hear("READY=1");
    daemon.wait_for_log(&["one: mode write-through -> write-around"]);
    assert_eq!(mode_of(&daemon, "one"), "write-around");
    reloadable.write(&[("one", "origin-no-flush = true")]);
    daemon.signal(Signal::HUP);
    daemon.wait_for_log(&[
        "the daemon is unchanged: volume one: `origin-no-flush` is false in the daemon and true",
    ]);
    assert_eq!(mode_of(&daemon, "one"), "write-around");
    daemon.stop();
}
