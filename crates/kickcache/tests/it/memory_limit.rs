//! The memory for the payload of requests.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};
use crate::tools::say_skipped;

const LIMIT: u64 = 96 * MIB;
const GROUP_LIMIT: u64 = 192 * MIB;
/// Memory of the daemon besides payload and tables.
const REST: u64 = 64 * MIB;
const CLIENTS: usize = 128;
const PAYLOAD: u32 = 32 << 20;

/// A control group of version 1 with a memory limit; removed with the test.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/memory/kickcache-it-{}", std::process::id()));
        let made = fs::create_dir(&path).and_then(|()| {
            fs::write(path.join("memory.limit_in_bytes"), GROUP_LIMIT.to_string())?;
            // The group must not use swap either.
            let _ = fs::write(path.join("memory.memsw.limit_in_bytes"), GROUP_LIMIT.to_string());
            Ok(())
        });
        match made {
            Ok(()) => Some(Group(path)),
            Err(error) => {
                say_skipped(&format!("no memory controller of version 1 at {}: {error}", path.display()));
                None
            }
        }
    }

    fn number(&self, file: &str) -> u64 {
        fs::read_to_string(self.0.join(file)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn within(group: Option<&Group>, serve: Command) -> Command {
    let Some(group) = group else { return serve };
    let mut command = Command::new("sh");
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    command.args(["-c", &script, "sh"]).arg(serve.get_program()).args(serve.get_args());
    command.envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command
}

fn start(scratch: &Scratch, group: Option<&Group>) -> Daemon {
    let spec = Spec::new(scratch, &scratch.path("greedy"), "write-back", "64M");
    let mut config = format!("memory-limit = \"96M\"\ncontrol = \"{}\"\n", spec.control().display());
    config += &format!("[[cache]]\ndevice = \"{}\"\nsize = \"64M\"\n", spec.cache.display());
    for name in ["greedy", "other"] {
        let origin = scratch.sparse(name, 4096 * MIB);
        let socket = scratch.path(&format!("{name}.sock"));
        config += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{}\"\n", origin.display());
        config += &format!("mode = \"write-back\"\nnbd = [\"unix:{}\"]\n", socket.display());
    }
    fs::write(scratch.path("config.toml"), config).unwrap();
    let serve = vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
    let sockets = ["greedy.sock", "other.sock"].map(|name| scratch.path(name));
    Daemon::start(within(group, guarded(KICKCACHE, serve)), spec, &sockets)
}

fn connect(scratch: &Scratch, name: &str) -> Client {
    Client::connect(&scratch.path(&format!("{name}.sock")), name).unwrap()
}

/// All clients that may connect but one: they send requests of 32 MiB, and of writes only a part; none takes
/// a reply.
fn greedy_but_one(scratch: &Scratch, command: u16, sent: usize) -> Vec<UnixStream> {
    let clients = (1..CLIENTS).map(|index| {
        let mut stream = connect(scratch, "greedy").stream().try_clone().unwrap();
        for number in 0..4 {
            let offset = (index as u64 * 4 + number) % 128 * u64::from(PAYLOAD);
            let request = Request { command, flags: 0, offset, length: PAYLOAD };
            if number == 0 || command == READ {
                stream.write_all(&request.encode(number)).unwrap();
            }
        }
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(&vec![7; sent]);
        stream
    });
    clients.collect()
}

fn memory(daemon: &Daemon) -> Value {
    daemon.status()["memory"].clone()
}

/// The peak of the resident memory, in bytes.
fn resident_max(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The other volume is served, and so is a client of the same volume that wants little.
fn check_neighbours(scratch: &Scratch, other: &mut Client, known: &mut Client) {
    other.write(0, &vec![3; 1 << 20]);
    assert_eq!(other.read(0, 1 << 20), vec![3; 1 << 20]);
    connect(scratch, "other").read(MIB, 64 << 10);
    known.write(4000 * MIB, &[4; 4096]);
    assert_eq!(known.read(4000 * MIB, 4096), vec![4; 4096]);
}

#[test]
fn many_greedy_clients_stay_within_the_memory_limit() {
    need_kickcache!();
    let scratch = Scratch::new();
    let group = Group::new();
    let mut daemon = start(&scratch, group.as_ref());
    let mut other = connect(&scratch, "other");
    for (command, sent) in [(READ, 0), (WRITE, 200 << 10)] {
        let mut known = connect(&scratch, "greedy");
        let mut clients = greedy_but_one(&scratch, command, sent);
        while memory(&daemon)["waiting_requests"].as_u64().unwrap() < 100 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        check_neighbours(&scratch, &mut other, &mut known);
        let told = memory(&daemon);
        assert_eq!(told["limit_bytes"].as_u64(), Some(LIMIT));
        assert!((1..=LIMIT).contains(&told["used_bytes"].as_u64().unwrap()), "{told}");
        clients.clear();
        drop(known);
        while daemon.status()["caches"][0]["volumes"][0]["sessions"]["nbd"] != 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert!(daemon.is_alive(), "{}", daemon.log());
    let tables = daemon.status()["caches"][0]["memory_bytes"].as_u64().unwrap();
    let resident = resident_max(&daemon);
    assert!(resident <= LIMIT + tables + REST, "{resident} bytes, {tables} of them tables");
    if let Some(group) = &group {
        assert!(group.number("memory.max_usage_in_bytes") <= GROUP_LIMIT);
    }
    daemon.stop();
}
