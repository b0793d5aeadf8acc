//! The files that a compromised daemon can get from its monitor. Root is needed: only root's folders are
//! trusted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::net::SendFlags;
use tempfile::TempDir;

use super::access::ask_at;
use super::account::Account;
use super::folders::{Purpose, connect_at_once, give};
use super::grant::{Grant, Right};
use super::monitor::Monitor;
use super::trusted_path::{Reach, Untrusted, check_file_of_root, check_private, walk, walk_for_caller};
use super::wire::{Answer, Ends, Request, Task};

const OTHER: u32 = 65_534;

const STATE: Purpose = Purpose::State { is_record: |name| name.as_encoded_bytes().ends_with(b".json") };

macro_rules! need_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            return;
        }
    };
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_refused(path: &Path) -> bool {
    matches!(walk(path), Err(Untrusted::Folder(_)))
}

#[test]
fn a_path_is_followed_only_while_root_controls_it() {
    need_root!();
    let top = folder();
    let at = |name: &str| top.path().join(name);
    fs::write(at("file"), "x").unwrap();
    fs::create_dir(at("sub")).unwrap();
    symlink("../sub/../file", at("sub/link")).unwrap();
    symlink(at("sub"), at("whole")).unwrap();
    let inode = fs::metadata(at("file")).unwrap().ino();
    for name in ["file", "sub/../file", "sub/link", "whole/link", "./sub/./link"] {
        let found = walk(&at(name)).unwrap().found.unwrap();
        assert_eq!(found.metadata().unwrap().ino(), inode, "{name}");
    }
    assert!(walk(&at("nothing")).unwrap().found.is_none());
    symlink("loop", at("loop")).unwrap();
    assert!(walk(&at("loop")).is_err() && walk(&at("no/thing")).is_err() && walk(&at("file/x")).is_err());
}

#[test]
fn a_folder_that_others_may_change_leads_nowhere() {
    need_root!();
    let top = folder();
    let at = |name: &str| top.path().join(name);
    for name in ["group", "owned", "sticky"] {
        fs::create_dir_all(at(name).join("sub")).unwrap();
        fs::write(at(name).join("file"), "x").unwrap();
        fs::write(at(name).join("sub/file"), "x").unwrap();
        symlink(at(name).join("file"), at(&format!("to-{name}"))).unwrap();
    }
    mode(&at("group"), 0o770);
    chown(at("owned"), Some(OTHER), None).unwrap();
    mode(&at("sticky"), 0o1777);
    for name in [
        "group/file",
        "owned/file",
        "sticky/file",
        "group/sub/file",
        "to-group",
        "to-owned",
        "sticky/nothing/..",
    ] {
        assert!(walk(&at(name)).is_err(), "{name}");
    }
    assert!(is_refused(&at("owned/sub/file")) && is_refused(&at("to-sticky")));
    assert!(walk(&at("sticky/sub/file")).unwrap().found.is_some());
    chown(at("sticky/sub"), Some(OTHER), None).unwrap();
    assert!(is_refused(&at("sticky/sub/file")));
}

#[test]
fn links_in_foreign_folders_are_not_followed_for_callers() {
    need_root!();
    let top = folder();
    let at = |name: &str| top.path().join(name);
    fs::write(at("file"), "x").unwrap();
    symlink(at("file"), at("link")).unwrap();
    fs::create_dir_all(at("open/sub")).unwrap();
    fs::write(at("open/sub/file"), "x").unwrap();
    symlink(at("file"), at("open/link")).unwrap();
    symlink("sub", at("open/way")).unwrap();
    mode(&at("open"), 0o777);
    let reach = |name: &str| walk_for_caller(&at(name)).map(|walked| walked.reach);
    assert!(matches!(reach("file"), Ok(Reach::Trusted)) && matches!(reach("link"), Ok(Reach::Trusted)));
    assert!(
        matches!(reach("open/sub/file"), Ok(Reach::Others)) && matches!(reach("open"), Ok(Reach::Others))
    );
    assert!(reach("open/link").is_err() && reach("open/way/file").is_err());
    mode(&at("open"), 0o1777);
    assert!(reach("open/link").is_err(), "anybody may have made it");
    assert!(matches!(reach("open/sub/file"), Ok(Reach::Trusted)), "as in /tmp");
    fs::write(at("open/file"), "x").unwrap();
    assert!(matches!(reach("open/file"), Ok(Reach::Others)));
}

#[test]
fn a_folder_writable_by_root_and_caller_only_is_private() {
    need_root!();
    let top = folder();
    let at = |name: &str| top.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/file"), "x").unwrap();
    assert!(check_private(&at("a/b")).is_ok() && check_private(&at("a/b/file")).is_ok());
    for wrong in [0o770, 0o707, 0o1777] {
        mode(&at("a/b"), wrong);
        assert!(check_private(&at("a/b")).is_err(), "{wrong:o}");
    }
    mode(&at("a/b"), 0o700);
    mode(&at("a"), 0o777);
    assert!(check_private(&at("a/b")).is_err() && check_private(&at("a/b/file")).is_err());
    mode(&at("a"), 0o700);
    chown(at("a/b/file"), Some(OTHER), None).unwrap();
    assert!(check_private(&at("a/b/file")).is_err() && check_private(&at("a/b")).is_ok());
    chown(at("a/b"), Some(OTHER), None).unwrap();
    assert!(check_private(&at("a/b")).is_err() && check_private(&at("nothing")).is_err());
}

/// A monitor on a thread, and the socket of its daemon.
struct Running {
    top: TempDir,
    socket: Mutex<OwnedFd>,
    granted_later: Arc<Mutex<Vec<Grant>>>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start() -> Running {
        let top = folder();
        let at = |name: &str| top.path().join(name);
        for name in ["mine", "read", "other"] {
            fs::write(at(name), name).unwrap();
        }
        let grant = |name: &str, right| Grant { path: at(name), right };
        let granted =
            vec![grant("mine", Right::Write), grant("read", Right::Read), grant("new", Right::Make)];
        let granted_later = Arc::new(Mutex::new(granted.clone()));
        let Ends { here: socket, there: its } = Ends::make().unwrap();
        let later = Arc::clone(&granted_later);
        let monitor = Monitor {
            granted: Mutex::new(granted),
            reread: Box::new(move || Ok(later.lock().unwrap().clone())),
            user: "nobody".into(),
            named_in: "k.toml (`may-open`)".into(),
            made: Mutex::default(),
        };
        let thread = std::thread::spawn(move || monitor.run(&its));
        Running { socket: Mutex::new(socket), granted_later, thread, top }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn ask(&self, task: Task, name: &str) -> Answer {
        ask_at(&self.socket, &Request { task, path: self.at(name) }).unwrap()
    }

    fn write(&self, name: &str) -> io::Result<File> {
        match self.ask(Task::Open(libc::O_RDWR), name) {
            Answer::Opened(fd) => Ok(fd.into()),
            Answer::Failed(number) => Err(io::Error::from_raw_os_error(number)),
            Answer::Refused(why) => Err(io::Error::other(why)),
            Answer::Done => panic!("nothing was opened"),
        }
    }

    fn is_refused(&self, name: &str) -> bool {
        self.write(name).is_err_and(|error| {
            error.to_string().contains("the user nobody may not open it, and the monitor")
        })
    }
}

#[test]
fn no_path_opens_a_file_that_was_not_named() {
    need_root!();
    let running = Running::start();
    running.write("mine").unwrap().write_all(b"MINE").unwrap();
    assert_eq!(fs::read(running.at("mine")).unwrap(), b"MINE");
    let refused = running.write("other").unwrap_err().to_string();
    assert!(
        refused.contains("the monitor opens only named devices; name it in k.toml (`may-open`)"),
        "{refused}"
    );
    fs::create_dir(running.at("theirs")).unwrap();
    for (target, link) in [("mine", "link-to-mine"), ("other", "link-to-other")] {
        symlink(running.at(target), running.at(link)).unwrap();
        symlink(running.at(target), running.at("theirs").join(target)).unwrap();
    }
    assert!(running.write("link-to-mine").is_ok() && running.write("theirs/../mine").is_ok());
    for name in
        ["link-to-other", "theirs/../other", "theirs/other", "mine/../other", "../../../../etc/shadow"]
    {
        assert!(running.write(name).is_err(), "{name}");
    }
    assert!(running.is_refused("link-to-other") && running.is_refused("theirs/../other"));
    assert!(running.is_refused("nothing") && running.is_refused("nothing/below"));
    // A named file, in a folder where the attacker can replace it.
    chown(running.top.path(), Some(OTHER), None).unwrap();
    fs::rename(running.at("other"), running.at("mine")).unwrap();
    assert!(running.is_refused("mine"));
}

#[test]
fn a_right_is_limited_to_its_grant() {
    need_root!();
    let running = Running::start();
    assert!(running.is_refused("read"));
    assert!(matches!(running.ask(Task::Open(libc::O_RDONLY), "read"), Answer::Opened(_)));
    let more = libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT | libc::O_APPEND;
    assert!(matches!(running.ask(Task::Open(more), "mine"), Answer::Opened(_)));
    assert_eq!(fs::read(running.at("mine")).unwrap(), b"mine");
    assert!(matches!(running.ask(Task::Open(libc::O_RDONLY), "new"), Answer::Failed(libc::ENOENT)));
    assert!(matches!(running.ask(Task::Remove, "mine"), Answer::Failed(libc::EPERM)));
    assert!(matches!(running.ask(Task::Make, "new"), Answer::Opened(_)));
    assert_eq!(fs::metadata(running.at("new")).unwrap().mode() & 0o777, 0o600);
    assert!(matches!(running.ask(Task::Remove, "new"), Answer::Done));
    assert!(!running.at("new").exists());
    assert!(matches!(running.ask(Task::Make, "newer"), Answer::Refused(_)));
    // A file that was created and moved away is root's.
    assert!(matches!(running.ask(Task::Make, "new"), Answer::Opened(_)));
    fs::rename(running.at("new"), running.at("kept")).unwrap();
    assert!(matches!(running.ask(Task::Remove, "kept"), Answer::Failed(libc::EPERM)));
    assert!(running.at("kept").exists());
    assert!(matches!(running.ask(Task::Look, "."), Answer::Refused(_)));
}

#[test]
fn the_files_below_a_named_device_are_readable_if_protected() {
    need_root!();
    let top = folder();
    let at = |name: &str| top.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    fs::write(at("sub/image"), vec![0; 1 << 20]).unwrap();
    fs::write(at("secret"), "x").unwrap();
    let made = Command::new("losetup").args(["--show", "-f"]).arg(at("sub/image")).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return eprintln!("skipped: loop devices cannot be made here");
    };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let grant = Grant { path: device.clone(), right: Right::Write };
    let right_to = |name: &str| grant.right_to(&fs::metadata(at(name)).unwrap());
    let before = (right_to("sub/image"), right_to("secret"));
    chown(at("sub"), Some(OTHER), None).unwrap();
    let of_others = right_to("sub/image");
    fs::remove_file(at("sub/image")).unwrap();
    symlink(at("secret"), at("sub/image (deleted)")).unwrap();
    let deleted = right_to("secret");
    assert!(Command::new("losetup").arg("-d").arg(&device).status().unwrap().success());
    assert_eq!((before, of_others, deleted), ((Some(Right::Read), None), None, None));
}

#[test]
fn the_highest_user_id_is_invalid() {
    for (user, group) in [("4294967295", Some("5")), ("0", Some("4294967295"))] {
        let refused = Account::find(user, group).unwrap_err();
        assert!(refused.contains("4294967295; name an existing one"), "{refused}");
    }
}

#[test]
fn only_paths_of_the_present_configuration_are_opened() {
    need_root!();
    let running = Running::start();
    assert!(running.is_refused("other"));
    let path = running.at("other");
    running.granted_later.lock().unwrap().push(Grant { path, right: Right::Write });
    assert!(running.write("other").is_ok());
    running.granted_later.lock().unwrap().retain(|grant| !grant.path.ends_with("other"));
    assert!(running.is_refused("other"));
}

#[test]
fn a_daemon_that_ends_or_talks_nonsense_ends_its_monitor() {
    need_root!();
    for nonsense in [&b""[..], b"x", b"\x09\0\0\0\0/etc/shadow"] {
        let running = Running::start();
        let socket = running.socket.into_inner().unwrap();
        if !nonsense.is_empty() {
            rustix::net::send(&socket, nonsense, SendFlags::empty()).unwrap();
        }
        drop(socket);
        running.thread.join().unwrap();
    }
}

#[test]
fn the_end_of_a_monitor_is_reported() {
    let Ends { here: socket, there: its } = Ends::make().unwrap();
    drop(its);
    let request = Request { task: Task::Look, path: "/".into() };
    let told = ask_at(&Mutex::new(socket), &request).unwrap_err().to_string();
    assert!(told.contains("the monitor, which would open it, has ended"), "{told}");
}

#[test]
fn a_configuration_is_trusted_if_root_alone_may_change_it() {
    need_root!();
    let top = folder();
    let file = top.path().join("k.toml");
    fs::write(&file, "x").unwrap();
    mode(&file, 0o644);
    check_file_of_root(&file).unwrap();
    mode(&file, 0o664);
    assert!(check_file_of_root(&file).unwrap_err().contains("others than root may change the file"));
    mode(&file, 0o644);
    chown(top.path(), Some(OTHER), None).unwrap();
    assert!(check_file_of_root(&file).unwrap_err().contains("others than root may change the folder"));
}

#[test]
fn a_folder_changes_its_owner_with_its_expected_files() {
    need_root!();
    let top = folder();
    let account = Account::find("65534", Some("65534")).unwrap();
    let at = |name: &str| top.path().join(name);
    let owner = |name: &str| fs::symlink_metadata(at(name)).unwrap().uid();
    give(&at("run/k"), Purpose::Sockets, &account, &[]).unwrap();
    assert_eq!((owner("run"), owner("run/k")), (0, OTHER));
    fs::create_dir(at("shared")).unwrap();
    fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    give(&at("shared/k"), Purpose::Sockets, &account, &[]).unwrap();
    assert_eq!((owner("shared"), owner("shared/k")), (0, OTHER));
    fs::create_dir(at("state")).unwrap();
    fs::write(at("state/origin-a.json"), "{}").unwrap();
    fs::write(at("state/letters"), "").unwrap();
    let refused = give(&at("state"), STATE, &account, &[]).unwrap_err();
    assert!(refused.contains("letters, which is no note of kickcache"), "{refused}");
    assert_eq!((owner("state"), owner("state/origin-a.json")), (0, 0), "nothing is changed by half");
    fs::remove_file(at("state/letters")).unwrap();
    give(&at("state"), STATE, &account, &[]).unwrap();
    assert_eq!((owner("state"), owner("state/origin-a.json")), (OTHER, OTHER));
    // Its contents belong to the user now: root does not change them.
    fs::write(at("state/cache-b.json"), "{}").unwrap();
    give(&at("state"), STATE, &account, &[]).unwrap();
    assert_eq!(owner("state/cache-b.json"), 0);
    let served = UnixListener::bind(at("run/k/served")).unwrap();
    drop(UnixListener::bind(at("run/k/left")).unwrap());
    give(&at("run/k"), Purpose::Sockets, &account, &[]).unwrap();
    assert!(at("run/k/served").exists() && !at("run/k/left").exists());
    // The check does not wait for a server that accepts no connections.
    let mut waiting = Vec::new();
    while let Ok(one) = connect_at_once(&at("run/k/served")) {
        waiting.push(one);
    }
    give(&at("run/k"), Purpose::Sockets, &account, &[]).unwrap();
    assert!(at("run/k/served").exists());
    drop((waiting, served));
}

#[test]
fn a_folder_with_foreign_files_keeps_its_owner() {
    need_root!();
    let top = folder();
    let account = Account::find("65534", Some("65534")).unwrap();
    let at = |name: &str| top.path().join(name);
    let owner = |name: &str| fs::symlink_metadata(at(name)).unwrap().uid();
    let given = |name: &str, purpose, passed: &[PathBuf]| give(&at(name), purpose, &account, passed);
    fs::create_dir_all(at("run/other")).unwrap();
    let refused = given("run", Purpose::Sockets, &[]).unwrap_err();
    assert!(refused.contains("run/other, the folder of another daemon"), "{refused}");
    chown(at("run/other"), Some(OTHER), None).unwrap();
    // A socket of a unit of systemd, which was passed to the daemon.
    let _passed = UnixListener::bind(at("run/vm1.nbd")).unwrap();
    assert!(given("run", Purpose::Sockets, &[]).unwrap_err().contains("vm1.nbd, the socket of a daemon"));
    assert_eq!(owner("run"), 0);
    given("run", Purpose::Sockets, &[at("run/vm1.nbd")]).unwrap();
    assert_eq!((owner("run"), owner("run/vm1.nbd")), (OTHER, 0));
    fs::create_dir(at("state")).unwrap();
    fs::write(at("shadow"), "").unwrap();
    fs::hard_link(at("shadow"), at("state/origin-a.json")).unwrap();
    assert!(given("state", STATE, &[]).unwrap_err().contains("origin-a.json, which is no note"));
    assert_eq!(owner("shadow"), 0);
}
