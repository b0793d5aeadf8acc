//! Starts by the wrapper in contrib, and by socket activation.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::guest::{Guest, READ, WRITE};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// The wrapper, which finds the program that was just built.
fn wrapper(scratch: &Scratch, arguments: Vec<OsString>) -> Command {
    let program = contrib("kickcache-vhost-user-blk");
    let mut command = guarded(program.to_str().unwrap(), arguments);
    let mut path = Path::new(KICKCACHE).parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    command.env("PATH", path).env("XDG_RUNTIME_DIR", scratch.dir());
    command.env("KICKCACHE_CACHE", scratch.path("cache")).env("KICKCACHE_SIZE", "16M");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

struct Backend(Child);

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn works(guest: &mut Guest) {
    assert_eq!(guest.run(0, WRITE, 8, &[5; 4096]).0, 0);
    assert_eq!(guest.run(0, READ, 8, &[0; 4096]), (0, vec![5; 4096]));
}

#[test]
fn the_description_names_a_wrapper_with_its_capabilities() {
    need_kickcache!();
    let scratch = Scratch::new();
    let text = fs::read_to_string(contrib("50-kickcache.json")).unwrap();
    let description: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(description["type"], "block");
    assert!(description["binary"].as_str().unwrap().ends_with("/kickcache-vhost-user-blk"));
    let mut command = wrapper(&scratch, vec!["--print-capabilities".into()]);
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let capabilities: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&capabilities["type"], &capabilities["features"][0]), (&"block".into(), &"read-only".into()));
}

#[test]
fn the_wrapper_serves_on_a_path_or_a_connected_socket() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = option("--blk-file=", &scratch.sparse("origin", 8 * MIB));
    let socket = scratch.path("guest.sock");
    let arguments = vec![option("--socket-path=", &socket), origin.clone()];
    let backend = Backend(wrapper(&scratch, arguments).spawn().unwrap());
    works(&mut Guest::connect(&socket, 1, 0));
    drop(backend);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = wrapper(&scratch, vec!["--fd=0".into(), origin]);
    let _backend = Backend(command.stdin(OwnedFd::from(theirs)).spawn().unwrap());
    works(&mut Guest::over(ours, 1));
}

#[test]
fn a_guest_may_connect_to_a_socket_of_systemd() {
    need_kickcache!();
    need_tools!("systemd-socket-activate");
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("origin", 8 * MIB), "write-back", "16M");
    let socket = scratch.path("guest.sock");
    let mut arguments: Vec<OsString> = vec!["-l".into(), socket.clone().into()];
    arguments.extend(["-E", "KICKCACHE_STATE", "--fdname=vhost-user", KICKCACHE].map(Into::into));
    arguments.extend(spec.arguments());
    // systemd-socket-activate starts the daemon when a client connects.
    let daemon = Daemon::start(guarded("systemd-socket-activate", arguments), spec, &[]);
    works(&mut Guest::connect(&socket, 1, 0));
    daemon.stop();
}
