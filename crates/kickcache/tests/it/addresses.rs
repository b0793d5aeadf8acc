//! The addresses of volumes in `status --json`.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, guarded, unix_address};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

#[test]
fn status_has_every_address_of_a_volume_with_real_ports() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut spec = Spec::new(&scratch, &scratch.sparse("origin", 8 * MIB), "write-back", "8M");
    let guest = scratch.path("guest.sock");
    spec.extra =
        ["--nbd", "tcp:127.0.0.1:0", "--vhost-user", guest.to_str().unwrap()].map(Into::into).to_vec();
    let daemon = spec.start();
    let status = daemon.status();
    let volume = &status["caches"][0]["volumes"][0];
    assert_eq!(volume["vhost_user"], guest.to_str().unwrap(), "{volume}");
    let nbd = strings(&volume["nbd"]);
    assert_eq!(nbd[0], format!("nbd+unix:///v?socket={}", spec.socket().display()));
    let address: SocketAddr =
        nbd[1].strip_prefix("nbd://").unwrap().strip_suffix("/v").unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    daemon.stop();
}

#[test]
fn volumes_that_share_an_address_each_have_it() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("one", 8 * MIB), "write-back", "8M");
    scratch.sparse("two", 8 * MIB);
    let (shared, own) = (scratch.path("shared.sock"), scratch.path("own.sock"));
    let address = |path| unix_address(path).into_string().unwrap();
    let config = format!(
        "control = \"{}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n\
         [[cache.volume]]\nname = \"one\"\norigin = \"{}\"\nnbd = [\"{}\"]\n\
         [[cache.volume]]\nname = \"two\"\norigin = \"{}\"\nnbd = [\"{}\", \"{}\"]\n",
        spec.control().display(),
        spec.cache.display(),
        spec.origin.display(),
        address(&shared),
        scratch.path("two").display(),
        address(&own),
        address(&shared),
    );
    std::fs::write(scratch.path("config.toml"), config).unwrap();
    let arguments = vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
    let daemon = Daemon::start(guarded(KICKCACHE, arguments), spec, &[shared.clone(), own.clone()]);
    let status = daemon.status();
    let uri = |name, path: &std::path::Path| format!("nbd+unix:///{name}?socket={}", path.display());
    let volumes = &status["caches"][0]["volumes"];
    assert_eq!(strings(&volumes[0]["nbd"]), [uri("one", &shared)]);
    assert_eq!(volumes[0]["vhost_user"], Value::Null);
    let mut both = strings(&volumes[1]["nbd"]);
    both.sort_unstable();
    assert_eq!(both, [uri("two", &own), uri("two", &shared)]);
    daemon.stop();
}

/// The clients run in another folder than the daemon.
#[test]
fn clients_accept_printed_uris_with_any_characters() {
    need_tools!("nbdinfo");
    need_kickcache!();
    let scratch = Scratch::new();
    let socket = "s 1?#%41&\u{e9}.sock";
    let name = "v+@:1\u{e9}";
    let origin = scratch.sparse("origin", 8 * MIB);
    let words = ["serve", "--cache", "cache", "--size", "8M", "--origin", "origin", "--name", name];
    let mut arguments: Vec<_> = words.map(Into::into).to_vec();
    arguments.extend(["--nbd".into(), unix_address(socket.as_ref())]);
    arguments.extend(["--control", "control.sock", "--state", "state"].map(Into::into));
    let mut command = guarded(KICKCACHE, arguments);
    command.current_dir(scratch.dir());
    let spec = Spec::new(&scratch, &origin, "write-back", "8M");
    let daemon = Daemon::start(command, spec, &[scratch.path(socket)]);
    let status = daemon.status();
    let nbd = strings(&status["caches"][0]["volumes"][0]["nbd"]);
    daemon.wait_for_log(&["volume v+@:1", nbd[0]]);
    assert_eq!(tools::run("nbdinfo", ["--size", nbd[0]]).trim(), (8 * MIB).to_string(), "{nbd:?}");
    daemon.stop();
}
