//! Writes of clients to disks with a log, and the versions that a power cut may leave.

use std::collections::BTreeMap;

use crate::cells;
use crate::client::{Client, READ, Request, WRITE};
use crate::faulty::FaultyDisks;
use crate::rng::Rng;

const CELL: u64 = 4096;
const ROUND_CELLS: u64 = 24;
const READ_BYTES: u32 = 1 << 20;

/// A version of a cell: where in the log it was sent, and where it was durable.
#[derive(Clone, Copy, Debug)]
struct SentVersion {
    version: u64,
    at: u64,
    durable: Option<u64>,
}

#[derive(Default)]
pub(crate) struct History(BTreeMap<u64, Vec<SentVersion>>);

impl History {
    /// A flush was acknowledged when the log had this many records.
    fn flushed(&mut self, position: u64) {
        let all = self.0.values_mut().flatten();
        all.filter(|sent| sent.durable.is_none()).for_each(|sent| sent.durable = Some(position));
    }

    pub(crate) fn check_volume(&self, bytes: &[u8], until: u64) -> Result<(), String> {
        (0..).zip(bytes.chunks(4096)).try_for_each(|(cell, bytes)| self.check_bytes(cell, bytes, until))
    }

    /// A write that no flush covers may be torn, as on any disk.
    fn check_bytes(&self, cell: u64, bytes: &[u8], until: u64) -> Result<(), String> {
        let is_unflushed =
            |sent: &SentVersion| sent.at <= until && sent.durable.is_none_or(|durable| durable > until);
        match cells::version(bytes, cell) {
            Ok(version) => self.check(cell, version, until),
            Err(_) if self.0.get(&cell).is_some_and(|sent| sent.iter().any(is_unflushed)) => Ok(()),
            Err(what) => Err(what),
        }
    }

    pub(crate) fn tell(&self, cell: usize, volumes: [&[u8]; 2], what: &str) -> String {
        let number = cell as u64;
        let [before, after] =
            volumes.map(|volume| cells::version(&volume[cell * 4096..(cell + 1) * 4096], number));
        let sent: Vec<_> = self.0.get(&number).into_iter().flatten().rev().take(4).collect();
        format!("cell {cell} was read as {before:?} and is {after:?} {what}; {sent:?} were sent")
    }

    /// The versions that a cell may have after a cut.
    fn check(&self, cell: u64, found: u64, until: u64) -> Result<(), String> {
        let none = Vec::new();
        let sent = self.0.get(&cell).unwrap_or(&none);
        let is_durable = |sent: &&SentVersion| sent.durable.is_some_and(|durable| durable <= until);
        let least = sent.iter().rev().find(is_durable).map_or(0, |sent| sent.version);
        let newest = sent.iter().rev().find(|sent| sent.at <= until).map_or(0, |sent| sent.version);
        if (least..=newest).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "cell {cell} is version {found}; {least} was flushed and {newest} sent before record {until}"
        ))
    }
}

/// Rounds of writes of cells, mostly hot ones, with flushes and reads between the rounds.
pub(crate) struct Load {
    pub(crate) seed: u64,
    /// Of the volume.
    pub(crate) bytes: u64,
}

impl Load {
    /// Writes until `is_over` is true for the number of rounds.
    pub(crate) fn write_until(
        &self,
        disks: &FaultyDisks,
        mut client: Client,
        mut is_over: impl FnMut(u64) -> bool,
    ) -> History {
        let (mut history, mut rng) = (History::default(), Rng::new(self.seed));
        let (cells, mut version) = (self.bytes / CELL, 0);
        while !is_over(version) {
            version += 1;
            let bound = if rng.below(3) == 0 { cells } else { cells / 8 };
            let at = disks.position();
            let mut in_flight = 0;
            for _ in 0..ROUND_CELLS {
                let cell = rng.below(bound);
                let sent = history.0.entry(cell).or_default();
                if sent.last().is_some_and(|sent| sent.version == version) {
                    continue;
                }
                sent.push(SentVersion { version, at, durable: None });
                send(&mut client, cell, version);
                in_flight += 1;
            }
            for _ in 0..in_flight {
                assert_eq!(client.receive().unwrap().errno, 0);
            }
            if rng.below(2) == 0 {
                client.flush();
                history.flushed(disks.position());
            }
            client.read(rng.below(cells) * CELL, 4096);
        }
        history
    }
}

fn send(client: &mut Client, cell: u64, version: u64) {
    let mut data = vec![0; 4096];
    cells::fill(&mut data, cell, version);
    let request = Request { command: WRITE, flags: 0, offset: cell * CELL, length: 4096 };
    client.send(request, &data).unwrap();
}

pub(crate) fn read_all(client: &mut Client, volume: u64) -> Result<Vec<u8>, String> {
    let mut found = Vec::new();
    for offset in (0..volume).step_by(1 << 20) {
        let reply = client.call(Request { command: READ, flags: 0, offset, length: READ_BYTES }, &[]);
        let reply = reply.map_err(|error| format!("a read at {offset}: {error}"))?;
        if reply.errno != 0 {
            return Err(format!("a read at {offset} failed with error {}", reply.errno));
        }
        found.extend(reply.data);
    }
    Ok(found)
}

#[test]
fn the_history_has_the_states_allowed_after_a_cut() {
    let mut history = History::default();
    let sent = |version, at| SentVersion { version, at, durable: None };
    history.0.insert(7, vec![sent(1, 10)]);
    history.flushed(20);
    history.0.entry(7).or_default().push(sent(2, 30));
    assert!(history.check(7, 0, 15).is_ok() && history.check(7, 1, 15).is_ok());
    assert!(history.check(7, 0, 25).is_err() && history.check(7, 1, 25).is_ok());
    assert!(history.check(7, 2, 25).is_err() && history.check(7, 2, 35).is_ok());
    assert!(history.check(8, 0, 35).is_ok() && history.check(8, 1, 35).is_err());
}
