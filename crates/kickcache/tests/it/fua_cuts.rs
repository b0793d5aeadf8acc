//! A command with FUA is durable once it is acknowledged: a power cut behind it loses everything that was not flushed, and not
//! the command. No flush of a client follows.

use crate::client::{Client, FUA, NO_HOLE, Request, TRIM, WRITE, WRITE_ZEROES};
use crate::faulty::FaultyDisks;
use crate::power_cuts::start_on;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

const CELL: u32 = 65_536;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

/// A command with FUA, on cells of its own.
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

/// Its effect, and where in the log of the disks it was acknowledged.
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
    // Before anything else: later commands flush.
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
    for Acknowledged { name, offset, content, position } in done {
        let files = disks.cut_unflushed(&scratch, position);
        let daemon = start_on(&scratch, mode, &files).expect("the daemon recovers");
        let found = daemon.connect().read(offset, CELL);
        assert!(found == content, "{mode}: a {name} with FUA was acknowledged, and a power cut undid it");
        daemon.kill();
    }
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
