//! NBD over TLS.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::certificates::{Authority, EXPIRED, VALID};
use crate::daemon::{Daemon, Spec, VOLUME};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

fn serve(scratch: &Scratch, certificates: &Path, extra: &[&str]) -> Daemon {
    let origin = scratch.path("origin");
    if !origin.exists() {
        scratch.random("origin", 32 * MIB, 1);
    }
    let mut spec = Spec::new(scratch, &origin, "write-back", "16M");
    spec.extra = vec!["--tls-certificates".into(), certificates.into()];
    spec.extra.extend(extra.iter().map(OsString::from));
    spec.start()
}

fn port(daemon: &Daemon) -> u16 {
    daemon.wait_for_log(&["listening on: "]);
    let log = daemon.log();
    let line = log.lines().find(|line| line.starts_with("listening on: ")).unwrap();
    let (_, port) = line.rsplit_once(':').unwrap();
    port.strip_suffix(&format!("/{VOLUME}")).unwrap().parse().unwrap()
}

const LOOPBACK: [&str; 2] = ["--nbd", "tcp:127.0.0.1:0"];
const REQUIRE: [&str; 2] = ["--tls", "require"];

fn uri(daemon: &Daemon, certificates: &Path) -> String {
    let socket = daemon.spec.socket();
    format!("nbds+unix:///{VOLUME}?socket={}&tls-certificates={}", socket.display(), certificates.display())
}

fn info(uri: &str) -> Output {
    tools::output("nbdinfo", ["--size", uri])
}

fn is_served(uri: &str) -> bool {
    let output = info(uri);
    let is_served = output.status.success();
    assert!(!is_served || output.stdout == b"33554432\n");
    is_served
}

/// The folders of the server, and of a client that it serves.
struct Folders {
    authority: Authority,
    server: PathBuf,
    client: PathBuf,
}

fn folders(scratch: &Scratch) -> Folders {
    let authority = Authority::new(scratch, "office");
    let server = authority.server("server", VALID, "localhost");
    let client = authority.client("client", VALID, "vm1");
    Folders { authority, server, client }
}

#[test]
fn the_tools_of_others_copy_there_and_back() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo", "nbdcopy", "qemu-img", "cmp");
    let scratch = Scratch::new();
    let Folders { server, client, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &REQUIRE);
    let uri = uri(&daemon, &client);
    assert!(is_served(&uri));
    let listed = tools::run("nbdinfo", ["--list", &uri]);
    assert!(listed.contains(VOLUME) && listed.contains("TLS"), "{listed}");
    let (new, copy) = (scratch.random("new", 32 * MIB, 2), scratch.path("copy"));
    tools::run("nbdcopy", [new.as_os_str(), uri.as_ref()]);
    tools::run("nbdcopy", [uri.as_ref(), copy.as_os_str()]);
    tools::run("cmp", [&new, &copy]);
    let socket = daemon.spec.socket();
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", client.display());
    let disk = format!(
        "driver=nbd,server.type=unix,server.path={},export={VOLUME},tls-creds=tls,tls-hostname=localhost",
        socket.display()
    );
    let compare = ["compare", "--object", &credentials, "--image-opts"];
    let plain = format!("driver=raw,file.driver=file,file.filename={}", new.display());
    tools::run("qemu-img", compare.iter().copied().chain([disk.as_str(), plain.as_str()]));
    daemon.stop();
}

/// A URI cannot name a folder of certificates to fio, and root has one place for the whole machine.
fn as_user_of<'a>(home: &'a str, program: &'a str) -> Vec<&'a str> {
    let mut words = if tools::is_root() {
        vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env"]
    } else {
        vec!["env"]
    };
    words.extend([home, program]);
    words
}

fn let_others_read(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn fio_verifies_its_writes() {
    need_kickcache!();
    need_tools!("openssl", "fio", "setpriv");
    let scratch = Scratch::new();
    let Folders { server, client, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &[&REQUIRE[..], &LOOPBACK].concat());
    let job = format!(
        "[global]\nioengine=nbd\nuri=nbds://localhost:{}/{VOLUME}\nrw=randwrite\nverify=crc32c\nverify_state_save=0\nfsync=64\n\
         [small]\nbs=4k\niodepth=32\nsize=8m\n[long]\nbs=1m\niodepth=8\noffset=8m\nsize=16m\n",
        port(&daemon)
    );
    let (file, home) = (scratch.path("job.fio"), scratch.path("home"));
    fs::write(&file, job).unwrap();
    fs::create_dir_all(home.join(".pki")).unwrap();
    fs::rename(&client, home.join(".pki/libnbd")).unwrap();
    [scratch.dir(), &home, &home.join(".pki"), &home.join(".pki/libnbd")]
        .into_iter()
        .for_each(let_others_read);
    let home = format!("HOME={}", home.display());
    let words = as_user_of(&home, "fio");
    let output = tools::run(words[0], words[1..].iter().copied().chain([file.to_str().unwrap()]));
    assert!(output.contains("err= 0"), "{output}");
    daemon.stop();
}

#[test]
fn clients_without_a_valid_certificate_are_refused() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { authority, server, client } = folders(&scratch);
    let daemon = serve(&scratch, &server, &REQUIRE);
    let plain = info(&daemon.uri());
    assert!(!plain.status.success());
    assert!(String::from_utf8_lossy(&plain.stderr).contains("TLS"), "{plain:?}");
    let others = Authority::new(&scratch, "others").client("client", VALID, "vm1");
    // The client trusts the server, and the server does not trust the client.
    authority.install(&others);
    assert!(!is_served(&uri(&daemon, &others)));
    daemon.wait_for_log(&["its certificate is of no authority in ca-cert.pem"]);
    assert!(!is_served(&uri(&daemon, &authority.client("late", EXPIRED, "vm1"))));
    daemon.wait_for_log(&["its certificate has expired"]);
    assert!(!is_served(&uri(&daemon, &authority.stranger("stranger"))));
    daemon.wait_for_log(&["it has no certificate"]);
    assert!(is_served(&uri(&daemon, &client)));
    daemon.stop();
}

#[test]
fn a_server_is_not_believed_with_a_wrong_certificate() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { authority, client, .. } = folders(&scratch);
    let server = authority.server("late", EXPIRED, "localhost");
    let daemon = serve(&scratch, &server, &[&REQUIRE[..], &LOOPBACK].concat());
    // Over a unix socket, libnbd trusts every server.
    let port = port(&daemon);
    let at =
        |folder: &Path| format!("nbds://localhost:{port}/{VOLUME}?tls-certificates={}", folder.display());
    assert!(!is_served(&at(&client)), "nbdinfo takes a server that has expired");
    authority.issue(&server, "server", VALID, "localhost");
    daemon.wait_for_log(&["new certificates are in use"]);
    assert!(is_served(&at(&client)));
    assert!(!is_served(&at(&Authority::new(&scratch, "others").client("client", VALID, "vm1"))));
    daemon.stop();
}

#[test]
fn with_tls_on_clients_choose() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { server, client, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &["--tls", "on"]);
    assert!(is_served(&daemon.uri()));
    assert!(is_served(&uri(&daemon, &client)));
    daemon.stop();
}

#[test]
fn clients_need_no_certificate_if_configured() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { authority, server, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &["--tls", "require", "--tls-verify-peer", "off"]);
    assert!(is_served(&uri(&daemon, &authority.stranger("stranger"))));
    assert!(!is_served(&daemon.uri()));
    daemon.stop();
}

#[test]
fn a_volume_is_for_the_clients_that_are_named() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { authority, server, client } = folders(&scratch);
    let allowed = ["--tls", "require", "--allow-client", "CN=vm1", "--allow-client", "DNS=vm3"];
    let daemon = serve(&scratch, &server, &allowed);
    assert!(is_served(&uri(&daemon, &client)));
    assert!(is_served(&uri(&daemon, &authority.client("third", VALID, "vm3"))));
    let other = uri(&daemon, &authority.client("other", VALID, "vm2"));
    assert!(!is_served(&other));
    daemon.wait_for_log(&["with the certificate of CN=vm2, DNS=vm2 was denied the volume v"]);
    let listed = tools::output("nbdinfo", ["--list", &other]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("export=\"v\""), "{listed:?}");
    daemon.stop();
}

#[test]
fn certificates_are_replaced_while_clients_are_served() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo", "nbdcopy");
    let scratch = Scratch::new();
    let Folders { authority, server, client } = folders(&scratch);
    let daemon = serve(&scratch, &server, &REQUIRE);
    assert!(is_served(&uri(&daemon, &client)));
    fs::write(server.join("server-key.pem"), "half of a key").unwrap();
    daemon.wait_for_log(&["new certificates cannot be used"]);
    assert!(is_served(&uri(&daemon, &client)), "the one before is in use");
    assert!(is_served(&uri(&daemon, &client)));
    let told = daemon.log().matches("new certificates cannot be used").count();
    assert_eq!(told, 1, "{}", daemon.log());
    assert!(daemon.spec.refusal(&["status", "--check"], 9).contains("1 thing is wrong"));
    assert!(daemon.control(&["status"]).contains("server-key.pem: there is no private key"));
    let next = Authority::new(&scratch, "next");
    next.install(&server);
    next.issue(&server, "server", VALID, "localhost");
    daemon.wait_for_log(&["new certificates are in use"]);
    assert!(!is_served(&uri(&daemon, &client)), "it trusts another authority");
    assert!(daemon.control(&["status", "--check"]).starts_with("good"));
    assert!(is_served(&uri(&daemon, &next.client("client", VALID, "vm1"))));
    fs::remove_file(server.join("server-key.pem")).unwrap();
    tools::run("mkfifo", [server.join("server-key.pem")]);
    daemon.wait_for_log(&["it is no regular file"]);
    assert!(is_served(&uri(&daemon, &next.client("client", VALID, "vm1"))), "the one before is in use");
    next.install(&client);
    authority.issue(&client, "client", VALID, "vm1");
    assert!(!is_served(&uri(&daemon, &client)));
    daemon.stop();
}

#[test]
fn tcp_for_everybody_needs_tls_with_certificates() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { server, client, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &[&REQUIRE[..], &["--nbd", "tcp:0.0.0.0:0"]].concat());
    let port = port(&daemon);
    let at = |host: &str| format!("nbds://{host}:{port}/{VOLUME}?tls-certificates={}", client.display());
    assert!(is_served(&at("localhost")));
    assert!(!is_served(&at("127.0.0.1")), "the certificate is for localhost");
    assert!(!is_served(&format!("nbd://localhost:{port}/{VOLUME}")));
    daemon.stop();
}

fn option(number: u32) -> Vec<u8> {
    [&b"IHAVEOPT"[..], &number.to_be_bytes(), &[0; 4]].concat()
}

/// Until the connection ends.
fn answer(daemon: &Daemon, bytes: &[u8]) -> Vec<u8> {
    let mut socket = UnixStream::connect(daemon.spec.socket()).unwrap();
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn a_plain_connection_to_tls_is_ended() {
    need_kickcache!();
    need_tools!("openssl", "nbdinfo");
    let scratch = Scratch::new();
    let Folders { server, client, .. } = folders(&scratch);
    let daemon = serve(&scratch, &server, &REQUIRE);
    let flags = 3_u32.to_be_bytes();
    let behind = [&flags[..], &option(5), &option(3)].concat();
    assert_eq!(answer(&daemon, &behind), b"", "bytes behind STARTTLS");
    let by_name = [&flags[..], &option(1)].concat();
    assert_eq!(answer(&daemon, &by_name), b"", "EXPORT_NAME in the clear");
    let mut socket = UnixStream::connect(daemon.spec.socket()).unwrap();
    let mut bytes = [0; 38];
    socket.write_all(&[&flags[..], &option(5)].concat()).unwrap();
    socket.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[18 + 12..18 + 16], [0, 0, 0, 1], "acknowledged");
    socket.write_all(&option(3)).unwrap();
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    assert!(!rest.starts_with(&[0, 3, 0xe8, 0x89]), "an option in the clear was answered");
    daemon.wait_for_log(&["it does not use TLS"]);
    assert!(is_served(&uri(&daemon, &client)));
    daemon.stop();
}
