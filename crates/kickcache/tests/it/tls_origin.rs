//! Origins that are exports of a server with TLS.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bad_input::refused;
use crate::certificates::{Authority, EXPIRED, VALID};
use crate::daemon::{Daemon, Spec};
use crate::nbd_server::Server;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

const BLOCK: u64 = 4096;

/// Serves clients with certificates only.
fn start(scratch: &Scratch, disk: &Path, certificates: &Path) -> Server {
    let folder = format!("--tls-certificates={}", certificates.display());
    Server::start(scratch, disk, &["--tls=require", &folder, "--tls-verify-peer"], &[])
}

fn uri(server: &Server, certificates: &Path, more: &str) -> PathBuf {
    let (socket, folder) = (server.socket.display(), certificates.display());
    format!("nbds+unix:///?socket={socket}&tls-certificates={folder}{more}").into()
}

fn serve(scratch: &Scratch, origin: &Path) -> Daemon {
    Spec::new(scratch, origin, "write-back", "16M").start()
}

fn block(number: u64, version: u8) -> Vec<u8> {
    let byte = u8::try_from(number % 251).unwrap();
    vec![byte ^ version; usize::try_from(BLOCK).unwrap()]
}

fn write(daemon: &Daemon, version: u8) {
    let mut client = daemon.connect();
    (0..512).for_each(|number| client.write(number * BLOCK, &block(number, version)));
    client.flush();
}

fn check(disk: &Path, version: u8) {
    let bytes = fs::read(disk).unwrap();
    let blocks = bytes.chunks(usize::try_from(BLOCK).unwrap()).take(512);
    assert!(blocks.zip(0..).all(|(found, number)| found == block(number, version)));
}

#[test]
fn an_origin_over_tls_survives_a_restart_of_its_server() {
    need_kickcache!();
    need_tools!("openssl", "nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 32 * MIB);
    let office = Authority::new(&scratch, "office");
    let certificates = office.server("server", VALID, "localhost");
    let client = office.client("client", VALID, "kickcache");
    let mut server = start(&scratch, &disk, &certificates);
    let daemon = serve(&scratch, &uri(&server, &client, ""));
    write(&daemon, 1);
    daemon.drain();
    check(&disk, 1);
    server.kill();
    // The certificates are of another authority.
    let next = Authority::new(&scratch, "next");
    let certificates = next.server("server", VALID, "localhost");
    next.install(&client);
    next.issue(&client, "client", VALID, "kickcache");
    let _server = start(&scratch, &disk, &certificates);
    write(&daemon, 2);
    daemon.drain();
    daemon.stop();
    check(&disk, 2);
}

#[test]
fn an_origin_with_a_wrong_certificate_is_refused() {
    need_kickcache!();
    need_tools!("openssl", "nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 32 * MIB);
    let office = Authority::new(&scratch, "office");
    let client = office.client("client", VALID, "kickcache");
    let others = Authority::new(&scratch, "others").client("client", VALID, "kickcache");
    let stranger = office.stranger("stranger");
    let refusal = |origin: &Path| {
        let spec = Spec::new(&scratch, origin, "write-back", "16M");
        let said = refused("an origin with TLS", &spec.arguments());
        assert!(!spec.cache.exists(), "a refused start leaves a cache device behind");
        said
    };
    let expect = |origin: &Path, part: &str| {
        let said = refusal(origin);
        assert!(said.contains(part), "no `{part}` in: {said}");
    };
    {
        let server = start(&scratch, &disk, &office.server("server", VALID, "localhost"));
        expect(&uri(&server, &client, "&tls-hostname=store"), "its certificate is for another name");
        expect(&uri(&server, &others, ""), "its certificate is of no authority in ca-cert.pem");
        // The server closes the connection, and its alert may arrive too late.
        let said = refusal(&uri(&server, &stranger, ""));
        assert!(
            ["TLS with the NBD server failed", "see the server's log"].iter().any(|part| said.contains(part)),
            "{said}"
        );
        expect(&uri(&server, &scratch.path("nowhere"), ""), "ca-cert.pem: there is no such file");
        expect(&server.uri(), "it requires TLS");
    }
    {
        let server = start(&scratch, &disk, &office.server("late", EXPIRED, "localhost"));
        expect(&uri(&server, &client, ""), "its certificate has expired");
    }
    let server = Server::start(&scratch, &disk, &[], &[]);
    expect(&uri(&server, &client, ""), "refused TLS");
}

#[test]
fn a_kickcache_is_the_origin_of_another_one() {
    need_kickcache!();
    need_tools!("openssl");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 32 * MIB);
    let office = Authority::new(&scratch, "office");
    let certificates = office.server("server", VALID, "localhost");
    let client = office.client("client", VALID, "front");
    let behind = Scratch::new();
    let mut spec = Spec::new(&behind, &disk, "write-through", "16M");
    spec.extra =
        ["--tls", "require", "--allow-client", "front", "--tls-certificates"].map(Into::into).to_vec();
    spec.extra.push(certificates.into());
    let back = spec.start();
    let socket = back.spec.socket();
    let uri = |client: &Path| {
        format!("nbds+unix:///v?socket={}&tls-certificates={}", socket.display(), client.display())
    };
    let front = serve(&scratch, Path::new(&uri(&client)));
    write(&front, 3);
    front.drain();
    front.stop();
    back.drain();
    check(&disk, 3);
    let other = office.client("other", VALID, "somebody");
    let place = Scratch::new();
    let refusal = refused(
        "another client",
        &Spec::new(&place, Path::new(&uri(&other)), "write-back", "16M").arguments(),
    );
    assert!(refusal.contains("the export is not for the name in your certificate"), "{refusal}");
    back.wait_for_log(&["was denied the volume v"]);
    back.stop();
}
