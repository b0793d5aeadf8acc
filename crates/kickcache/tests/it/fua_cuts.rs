//! A command with FUA, or of a guest without a write cache, is durable once it is acknowledged.

use crate::client::{Client, FUA, NO_HOLE, Request, TRIM, WRITE, WRITE_ZEROES};
use crate::faulty::FaultyDisks;
use crate::guest::{self, Guest};
use crate::power_cuts::start_on;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, guests, need_kickcache};

const CELL: u32 = 65_536;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

struct Durable {
    name: &'static str,
    command: u16,
    flags: u16,
}

const COMMANDS: [Durable; 4] = [
    Durable { name: "write", command: WRITE, flags: FUA },
    Durable { name: "write zeroes", command: WRITE_ZEROES, flags: FUA },
    Durable { name: "write zeroes without a hole", command: WRITE_ZEROES, flags: FUA | NO_HOLE },
    Durable { name: "trim", command: TRIM, flags: FUA },
];

/// The effect of a command, and the position in the log of the disks at which it was acknowledged.
struct Acknowledged {
    name: &'static str,
    offset: u64,
    content: Vec<u8>,
    position: u64,
}

fn offset_of(index: usize) -> u64 {
    MIB + index as u64 * 2 * u64::from(CELL)
}

fn run(client: &mut Client, disks: &FaultyDisks, index: usize) -> Acknowledged {
    let Durable { name, command, flags } = COMMANDS[index];
    let (offset, data) = (offset_of(index), vec![AFTER; CELL as usize]);
    let payload = if command == WRITE { &data[..] } else { &[] };
    let reply = client.call(Request { command, flags, offset, length: CELL }, payload).unwrap();
    assert_eq!(reply.errno, 0, "{name}");
    // Later commands flush.
    let position = disks.position();
    Acknowledged { name, offset, content: client.read(offset, CELL), position }
}

fn survive_cuts(mode: &'static str) {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let daemon = disks.spec(&scratch, mode).start();
    let mut client = daemon.connect();
    for index in 0..COMMANDS.len() {
        client.write(offset_of(index), &vec![BEFORE; CELL as usize]);
    }
    client.flush();
    let done: Vec<Acknowledged> = (0..COMMANDS.len()).map(|index| run(&mut client, &disks, index)).collect();
    assert!(done.iter().all(|done| done.content != vec![BEFORE; CELL as usize]));
    drop(client);
    daemon.kill();
    check(&scratch, &disks, mode, done);
}

fn check(scratch: &Scratch, disks: &FaultyDisks, mode: &'static str, done: Vec<Acknowledged>) {
    for Acknowledged { name, offset, content, position } in done {
        let files = disks.cut_unflushed(scratch, position);
        let daemon = start_on(scratch, mode, &files).expect("the daemon recovers");
        let found = daemon.connect().read(offset, CELL);
        assert!(found == content, "{mode}: a durable {name} was acknowledged, and a power cut undid it");
        daemon.kill();
    }
}

/// A guest whose write cache is off sends no flush.
fn survive_cuts_of_a_guest(mode: &'static str) {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let mut spec = disks.spec(&scratch, mode);
    spec.extra.extend(["--vhost-user".into(), guests::socket(&spec).into()]);
    let daemon = spec.start();
    let mut guest = Guest::connect(&guests::socket(&spec), 1, 0);
    for index in 0..3 {
        let before = vec![BEFORE; CELL as usize];
        assert_eq!(guest.run(0, guest::WRITE, offset_of(index) / 512, &before).0, 0);
    }
    assert_eq!(guest.run(0, guest::FLUSH, 0, &[]).0, 0);
    guest.set_write_cache(false);
    let mut done = Vec::new();
    for (index, unmap) in [(0, None), (1, Some(0)), (2, Some(1))] {
        let sector = offset_of(index) / 512;
        let after = if unmap.is_none() { AFTER } else { 0 };
        let (status, name) = match unmap {
            None => (guest.run(0, guest::WRITE, sector, &vec![AFTER; CELL as usize]).0, "write"),
            Some(unmap) => {
                let range = [sector.to_le_bytes(), ((u64::from(CELL) / 512) | (unmap << 32)).to_le_bytes()];
                (guest.run(0, guest::ZEROES, 0, &range.concat()).0, "write zeroes")
            }
        };
        assert_eq!(status, 0, "{name}");
        let content = vec![after; CELL as usize];
        done.push(Acknowledged { name, offset: offset_of(index), content, position: disks.position() });
    }
    drop(guest);
    daemon.kill();
    check(&scratch, &disks, mode, done);
}

#[test]
fn commands_with_fua_survive_power_cuts_in_write_back() {
    survive_cuts("write-back");
}

#[test]
fn commands_with_fua_survive_power_cuts_in_write_through() {
    survive_cuts("write-through");
}

#[test]
fn commands_with_fua_survive_power_cuts_in_write_around() {
    survive_cuts("write-around");
}

#[test]
fn uncached_guest_requests_survive_cuts_in_write_back() {
    survive_cuts_of_a_guest("write-back");
}

#[test]
fn uncached_guest_requests_survive_cuts_in_write_through() {
    survive_cuts_of_a_guest("write-through");
}

#[test]
fn uncached_guest_requests_survive_cuts_in_write_around() {
    survive_cuts_of_a_guest("write-around");
}
