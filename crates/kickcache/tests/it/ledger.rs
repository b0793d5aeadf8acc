//! The writes of one writer: after a kill a cell must have its last acknowledged version or a later one that
//! was sent.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::cells;
use crate::client::{Client, ESHUTDOWN, FLUSH, FUA, Request, WRITE};
use crate::rng::Rng;

const WINDOW: usize = 16;
const RUN_CELLS_MAX: u64 = 8;
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Cell {
    sent: u64,
    acknowledged: u64,
    in_flight: bool,
}

/// A range of the volume with no other writer.
pub(crate) struct Ledger {
    first: u64,
    cell_bytes: usize,
    cells: Vec<Cell>,
    version: u64,
    rng: Rng,
    in_flight: HashMap<u64, Range<usize>>,
}

impl Ledger {
    /// `cells` counts cells of `cell_bytes` from the start of the volume, which must be zeroes there.
    pub(crate) fn new(cells: Range<u64>, cell_bytes: usize) -> Ledger {
        let count = usize::try_from(cells.end - cells.start).unwrap();
        Ledger {
            first: cells.start,
            cell_bytes,
            cells: vec![Cell::default(); count],
            version: 0,
            rng: Rng::new(cells.start),
            in_flight: HashMap::new(),
        }
    }

    /// Writes random cells until the server closes the connection or `stop` is set; counts the replies.
    pub(crate) fn write_until(
        &mut self,
        mut client: Client,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> io::Result<()> {
        self.in_flight.clear();
        self.cells.iter_mut().for_each(|cell| cell.in_flight = false);
        loop {
            while self.in_flight.len() < WINDOW && !stop.load(Ordering::Relaxed) {
                self.send(&mut client)?;
            }
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.receive(&mut client)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&mut self, client: &mut Client) -> io::Result<()> {
        if self.rng.below(64) == 0 {
            let handle = client.send(Request { command: FLUSH, ..Request::default() }, &[])?;
            self.in_flight.insert(handle, 0..0);
            return Ok(());
        }
        let run = self.choose_run();
        self.version += 1;
        let mut data = vec![0; run.len() * self.cell_bytes];
        for (at, bytes) in run.clone().zip(data.chunks_mut(self.cell_bytes)) {
            cells::fill(bytes, self.number(at), self.version);
            self.cells[at] = Cell { sent: self.version, in_flight: true, ..self.cells[at] };
        }
        let flags = if self.rng.below(32) == 0 { FUA } else { 0 };
        let (offset, length) = (self.offset(run.start), u32::try_from(data.len()).unwrap());
        let handle = client.send(Request { command: WRITE, flags, offset, length }, &data)?;
        self.in_flight.insert(handle, run);
        Ok(())
    }

    /// A few neighbouring cells that are not in flight, often of the first eighth.
    fn choose_run(&mut self) -> Range<usize> {
        let count = self.cells.len() as u64;
        loop {
            let bound = if self.rng.below(2) == 0 { count / 8 } else { count };
            let start = self.rng.below(bound);
            let end = (start + self.rng.between(1, RUN_CELLS_MAX)).min(count);
            let run = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
            if self.cells[run.clone()].iter().all(|cell| !cell.in_flight) {
                return run;
            }
        }
    }

    fn receive(&mut self, client: &mut Client) -> io::Result<()> {
        let reply = client.receive()?;
        let run = self.in_flight.remove(&reply.handle).expect("a reply to a request that is in flight");
        if reply.errno == ESHUTDOWN {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        assert_eq!(reply.errno, 0, "error of a write to cells {run:?}");
        for cell in &mut self.cells[run] {
            *cell = Cell { acknowledged: cell.sent, in_flight: false, ..*cell };
        }
        Ok(())
    }

    /// The versions found are the expected ones from here on.
    pub(crate) fn check(&mut self, client: &mut Client) -> Result<(), String> {
        let cells_per_read = READ_BYTES / self.cell_bytes;
        for start in (0..self.cells.len()).step_by(cells_per_read) {
            let end = (start + cells_per_read).min(self.cells.len());
            let length = u32::try_from((end - start) * self.cell_bytes).unwrap();
            let data = client.read(self.offset(start), length);
            for (at, bytes) in (start..end).zip(data.chunks(self.cell_bytes)) {
                self.check_cell(at, bytes)?;
            }
        }
        Ok(())
    }

    fn check_cell(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        let number = self.number(at);
        let version = cells::version(bytes, number)?;
        let Cell { sent, acknowledged, .. } = self.cells[at];
        if !(acknowledged..=sent).contains(&version) {
            let offset = self.offset(at);
            return Err(format!(
                "cell {number} at byte {offset} is version {version}; {acknowledged} was acknowledged, {sent} sent"
            ));
        }
        self.cells[at] = Cell { sent: version, acknowledged: version, in_flight: false };
        Ok(())
    }

    fn number(&self, at: usize) -> u64 {
        self.first + at as u64
    }

    fn offset(&self, at: usize) -> u64 {
        self.number(at) * self.cell_bytes as u64
    }
}
