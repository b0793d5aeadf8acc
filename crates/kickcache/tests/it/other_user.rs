//! Root starts a daemon, which continues as another user without access to its devices.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bad_input::Loop;
use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::out_of_service::{Mount, is_out, thin_cache};
use crate::scratch::{MIB, Scratch, state_dir};
use crate::{need_kickcache, need_tools, skip, tools};

const USER: &str = "65534:65534";
const NUMBER: u32 = 65_534;

/// Devices in a folder of root, sockets and records in a folder of the user.
struct Place {
    spec: Spec,
    devices: Scratch,
    _theirs: Scratch,
}

impl Place {
    fn new(cache_size: &'static str) -> Place {
        let (theirs, devices) = (Scratch::new(), Scratch::new());
        chown(theirs.dir(), Some(NUMBER), Some(NUMBER)).unwrap();
        fs::set_permissions(devices.dir(), fs::Permissions::from_mode(0o700)).unwrap();
        let origin = devices.sparse("origin", 16 * MIB);
        fs::set_permissions(&origin, fs::Permissions::from_mode(0o600)).unwrap();
        let extra = ["--user", USER].map(Into::into).to_vec();
        let spec = Spec::new(&theirs, &origin, "write-through", cache_size);
        let spec = Spec { cache: devices.path("cache"), extra, ..spec };
        Place { spec, devices, _theirs: theirs }
    }

    fn text(&self, name: &str) -> String {
        self.devices.path(name).to_str().unwrap().to_owned()
    }

    /// A volume with an origin that was not named before.
    fn add_another(&self) -> String {
        self.devices.sparse("another", MIB);
        let (cache, origin) = (self.text("cache"), self.text("another"));
        let nbd = format!("unix:{}", self.text("another.sock"));
        let order = ["add", "--cache", &cache, "--origin", &origin, "--name", "another", "--nbd", &nbd];
        self.spec.refusal(&order, 1)
    }
}

/// Of /proc/PID/status.
fn status(pid: u32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn monitor_of(daemon: &Daemon) -> u32 {
    let pid = daemon.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// The process may remain as a zombie.
fn wait_for_end(pid: u32) {
    let began = Instant::now();
    while status(pid, "State").is_some_and(|state| !state.starts_with('Z')) {
        assert!(began.elapsed() < Duration::from_secs(20), "process {pid} does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_daemon_has_no_rights_and_serves_the_named_devices() {
    need_kickcache!();
    let mut place = Place::new("16M");
    let device = match Loop::new(&place.spec.origin) {
        Ok(device) => device,
        Err(why) => skip!("{why}"),
    };
    place.spec.origin = device.path();
    place.spec.extra.extend(["--may-open".into(), place.devices.path("next").into()]);
    let daemon = place.spec.start();
    let of_daemon = |key| status(daemon.pid(), key).unwrap();
    assert_eq!(of_daemon("Uid"), "65534 65534 65534 65534");
    assert_eq!(
        (of_daemon("Gid").as_str(), of_daemon("Groups").as_str()),
        ("65534 65534 65534 65534", "65534")
    );
    assert_eq!((of_daemon("CapPrm"), of_daemon("NoNewPrivs")), (format!("{:016x}", 0), "1".into()));
    let monitor = monitor_of(&daemon);
    // Bit 1 is CAP_DAC_OVERRIDE.
    assert_eq!(status(monitor, "CapPrm").unwrap(), format!("{:016x}", 2));
    let data = vec![7; 4096];
    daemon.connect().write(4096, &data);
    let refused = place.add_another();
    assert!(
        refused.contains("the user 65534 may not open it, and the monitor opens only named devices"),
        "{refused}"
    );
    let (cache, next) = (place.text("cache"), place.text("next"));
    let other = place.text("other");
    let refused = place.spec.refusal(&["replace", "--cache", &cache, "--with", &other], 1);
    assert!(refused.contains("the user 65534 may not open it"), "{refused}");
    daemon.control(&["replace", "--cache", &cache, "--with", &next]);
    daemon.connect().write(8192, &data);
    daemon.stop();
    wait_for_end(monitor);
    assert_eq!(&fs::read(place.devices.path("origin")).unwrap()[4096..12288], [data.clone(), data].concat());
    tools::run(KICKCACHE, ["detach", &next, "v"]);
    place.spec.start().stop();
}

#[test]
fn a_user_gets_the_records_of_a_former_root_daemon() {
    need_kickcache!();
    if !tools::is_root() {
        skip!("only root starts a daemon that goes on as another user");
    }
    let (place, above) = (Place::new("16M"), Scratch::new());
    fs::set_permissions(above.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let state = above.path("state");
    let named = ["--state".into(), state.to_str().unwrap().to_owned().into()];
    let as_root = Spec { extra: named.to_vec(), ..place.spec.clone() };
    let as_user = Spec { extra: [place.spec.extra.clone(), named.to_vec()].concat(), ..place.spec.clone() };
    let daemon = as_root.start();
    daemon.connect().write(0, &[7; 4096]);
    daemon.stop();
    let records = || fs::read_dir(&state).unwrap().map(|record| record.unwrap().path());
    let wear = records().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("wear-"));
    assert!(wear.is_some(), "{:?}", records().collect::<Vec<_>>());
    as_user.start().stop();
    assert!(records().all(|record| fs::metadata(record).unwrap().uid() == NUMBER));
}

#[test]
fn the_daemon_survives_its_monitor_and_the_monitor_no_daemon() {
    need_kickcache!();
    if !tools::is_root() {
        skip!("only root starts a daemon that goes on as another user");
    }
    let place = Place::new("16M");
    let daemon = place.spec.start();
    let monitor = monitor_of(&daemon);
    // Signals to the group of both are for the daemon.
    tools::run("kill", ["-TERM", &monitor.to_string()]);
    assert!(place.add_another().contains("and the monitor opens only named devices"));
    tools::run("kill", ["-KILL", &monitor.to_string()]);
    daemon.wait_for_log(&["the monitor, the part of the daemon that is root, has ended"]);
    daemon.connect().write(0, &[7; 4096]);
    assert_eq!(daemon.connect().read(0, 4096), [7; 4096]);
    let refused = place.add_another();
    assert!(refused.contains("the monitor, which would open it, has ended"), "{refused}");
    daemon.kill();
    let daemon = place.spec.start();
    let monitor = monitor_of(&daemon);
    daemon.kill();
    wait_for_end(monitor);
}

#[test]
fn a_cache_device_that_goes_out_of_service_is_noted() {
    need_kickcache!();
    need_tools!("mount", "cp");
    if !tools::is_root() {
        skip!("only root starts a daemon that goes on as another user");
    }
    let mut place = Place::new("48M");
    let mounted = match Mount::tmpfs(&place.devices) {
        Ok(mounted) => mounted,
        Err(why) => skip!("{why}"),
    };
    // By default every user may write to a tmpfs.
    fs::set_permissions(place.devices.path("mount"), fs::Permissions::from_mode(0o755)).unwrap();
    place.spec.cache = thin_cache(&place.devices, &mounted);
    place.spec.extra.extend(["--admission", "always"].map(Into::into));
    let mut daemon = place.spec.start();
    let mut client = daemon.connect();
    for block in 0..400 {
        client.write(block * 32_768, &[3; 32_768]);
    }
    drop(client);
    assert!(is_out(&daemon), "{}", daemon.status());
    daemon.signal(Signal::TERM);
    daemon.wait();
    let notes: Vec<PathBuf> = fs::read_dir(state_dir()).unwrap().map(|note| note.unwrap().path()).collect();
    let is_noted = |note: &PathBuf| fs::read_to_string(note).unwrap().contains("\"since\"");
    assert!(notes.iter().any(is_noted), "{notes:?}: {}", daemon.log());
}

#[test]
fn an_unsafe_or_useless_start_is_refused() {
    need_kickcache!();
    if !tools::is_root() {
        skip!("only root starts a daemon that goes on as another user");
    }
    let place = Place::new("16M");
    let refused = |spec: Spec| {
        let mut command = spec.command();
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let with = |extra: &[&str]| Spec { extra: extra.iter().map(Into::into).collect(), ..place.spec.clone() };
    let unknown = refused(with(&["--user", "no-such-user"]));
    assert!(unknown.contains("there is no user no-such-user"), "{unknown}");
    let on_host = refused(with(&["--user", USER, "--ublk"]));
    assert!(
        on_host.contains("`v` is a block device of this host (ublk), which needs rights of root"),
        "{on_host}"
    );
    let state = place.text("state");
    let notes = refused(with(&["--user", USER, "--state", &state]));
    assert!(notes.contains("the user 65534:65534 cannot write notes to the state directory"), "{notes}");
    // A user who may change the file could choose the devices that root opens.
    let config = place.devices.path("k.toml");
    fs::write(
        &config,
        format!(
            "user = \"{USER}\"\n[[cache]]\ndevice = \"/c\"\n[[cache.volume]]\nname = \"v\"\norigin = \"/o\"\n"
        ),
    )
    .unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).unwrap();
    let output = tools::output(KICKCACHE, ["serve".as_ref(), "--config".as_ref(), config.as_os_str()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("others than root may change the file"), "{said}");
    assert!(!place.devices.path("cache").exists(), "something was made");
}
