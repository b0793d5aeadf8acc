//! Programs of other projects, where they are installed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: {program} does not start ({error})");
            return None;
        }
    };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complaint) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {printed}{complaint}");
    Some(printed + &complaint)
}

#[test]
fn nbdinfo_sees_the_offers_of_the_session() {
    let server = ToyServer::start();
    let Some(info) = output_of("nbdinfo", &[&server.uri("ram")]) else { return };
    for expected in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 8388608",
        "base:allocation",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "is_read_only: false",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(expected), "no {expected:?} in:\n{info}");
    }
    let list = output_of("nbdinfo", &["--list", &server.uri("")]).unwrap();
    assert!(list.contains("export=\"ram\"") && list.contains("export=\"rom\""), "{list}");
    let read_only = output_of("nbdinfo", &[&server.uri("rom")]).unwrap();
    assert!(read_only.contains("is_read_only: true"), "{read_only}");
}

#[test]
fn nbdcopy_copies_in_and_out() {
    let server = ToyServer::start();
    let (original, copy) = (server.folder().join("original"), server.folder().join("copy"));
    let mut bytes: Vec<u8> = (0..8_u32 << 20).map(|at| u8::try_from(at / 7 % 256).unwrap()).collect();
    bytes[1 << 20..3 << 20].fill(0);
    fs::write(&original, &bytes).unwrap();
    let [original, copy_path] = [&original, &copy].map(|path| path.to_str().unwrap());
    if output_of("nbdcopy", &[original, &server.uri("ram")]).is_none() {
        return;
    }
    output_of("nbdcopy", &[&server.uri("ram"), copy_path]).unwrap();
    assert!(fs::read(&copy).unwrap() == bytes);
    let map = output_of("nbdinfo", &["--map", &server.uri("ram")]).unwrap();
    assert!(map.contains("2097152") && map.contains("hole,zero"), "{map}");
}

#[test]
fn qemu_io_commands_all_work() {
    let server = ToyServer::start();
    let script = [
        "write -P 1 0 64k",
        "write -f -P 2 4k 4k",
        "write -z 8k 4k",
        "write -z -u 12k 4k",
        "discard 16k 4k",
        "flush",
        "read -P 1 0 4k",
        "read -P 2 4k 4k",
        "read -P 0 8k 12k",
        "read -P 1 20k 44k",
        "read -P 1 3 5",
        "write -P 5 77777 33333",
        "read -P 5 77777 33333",
        "map",
    ];
    let uri = server.uri("ram");
    let mut arguments = vec!["-f", "raw"];
    script.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let Some(printed) = output_of("qemu-io", &arguments) else { return };
    assert!(!printed.contains("failed") && !printed.contains("rror"), "{printed}");
    if !server.saw_extended_headers() {
        eprintln!("skipped: this qemu-io is older than 8.2 and does not ask for extended headers");
    }
}

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn start_peer(program: &str, arguments: &[&str], ready: impl Fn() -> bool) -> Option<Peer> {
    let mut command = Command::new(program);
    let mut child = match command.args(arguments).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: {program} does not start ({error})");
            return None;
        }
    };
    let complaints = BufReader::new(child.stderr.take().unwrap());
    thread::spawn(move || complaints.lines().for_each(|line| eprintln!("{}", line.unwrap_or_default())));
    let peer = Peer(child);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < deadline, "{program} {arguments:?} does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    Some(peer)
}

fn exercise(connect: impl Fn(&ConnectOptions) -> Result<Client, ClientError>) {
    for structured in [false, true] {
        let options = ConnectOptions { structured, allocation: structured, ..ConnectOptions::default() };
        let mut client = connect(&options).unwrap();
        assert_eq!((client.export().size, client.export().structured), (8 << 20, structured));
        client.write_at(4096, &[7; 8192]).unwrap();
        client.write_zeroes(1 << 20, 65536).unwrap();
        client.trim(2 << 20, 65536).unwrap();
        client.flush().unwrap();
        let mut found = vec![1; 4 << 20];
        client.read_at(0, &mut found).unwrap();
        assert!(found[4096..12288] == [7; 8192] && found[12288..].iter().all(|&byte| byte == 0));
        if structured {
            let extents = client.block_status(0, 8 << 20).unwrap();
            assert!(extents.iter().map(|extent| extent.length).sum::<u64>() > 0);
        }
        assert!(matches!(client.read_at(8 << 20, &mut [0]), Err(ClientError::Request(NbdErrno::Invalid))));
        client.disconnect().unwrap();
    }
}

#[test]
fn the_client_talks_to_nbdkit_over_a_unix_socket() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let socket = folder.path().join("socket");
    let arguments = ["--foreground", "--unix", socket.to_str().unwrap(), "memory", "8M"];
    let listens = || Path::new(&socket).exists();
    let Some(_peer) = start_peer("nbdkit", &arguments, listens) else { return };
    exercise(|options| Client::connect_unix(&socket, options));
}

#[test]
fn the_client_talks_to_qemu_nbd_over_tcp() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port_text = port.to_string();
    let image = image.to_str().unwrap();
    let arguments = ["-f", "raw", "-t", "-e", "4", "-b", "127.0.0.1", "-p", &port_text, image];
    let listens = || Client::connect_tcp(("127.0.0.1", port), &ConnectOptions::default()).is_ok();
    let Some(_peer) = start_peer("qemu-nbd", &arguments, listens) else { return };
    exercise(|options| Client::connect_tcp(("127.0.0.1", port), options));
}
