//! The driver's memory: payloads of requests and the engine's pool, with a guard against overlapping use.

use std::collections::BTreeMap;

use kickcache_engine::device::{Memory, Piece};
use kickcache_engine::request::RequestId;
use kickcache_engine::units::BLOCK_BYTES;

/// What an operation in flight does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The device reads it.
    Source,
    /// The device fills it.
    Target,
}

/// A stretch of memory: the pool is owner `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    owner: Option<RequestId>,
    start: usize,
    end: usize,
}

impl Stretch {
    fn overlaps(&self, other: &Stretch) -> bool {
        self.owner == other.owner && self.start < other.end && other.start < self.end
    }
}

/// All memory of a driver.
#[derive(Clone, Debug)]
pub struct DriverMemory {
    requests: BTreeMap<RequestId, Vec<u8>>,
    pool: Vec<u8>,
    /// Memory in use by submissions in flight.
    guarded: BTreeMap<u64, Vec<(Stretch, Access)>>,
}

fn size(length: u32) -> usize {
    usize::try_from(length).expect("32 bits fit a usize")
}

impl DriverMemory {
    /// The memory of a driver with a pool of so many pages.
    pub fn new(pool_pages: u32) -> DriverMemory {
        let pool = vec![0; size(pool_pages) * BLOCK_BYTES];
        DriverMemory { requests: BTreeMap::new(), pool, guarded: BTreeMap::new() }
    }

    /// Takes the payload of a request.
    pub fn insert(&mut self, id: RequestId, payload: Vec<u8>) {
        self.requests.insert(id, payload);
    }

    /// Gives the payload of a request that ended back.
    ///
    /// # Errors
    /// If a submission in flight still uses it.
    pub fn remove(&mut self, id: RequestId) -> Result<Vec<u8>, String> {
        let user = self.guarded.iter().find(|entry| entry.1.iter().any(|used| used.0.owner == Some(id)));
        if let Some((submission, _)) = user {
            return Err(format!("request {} ended while submission {submission} uses its memory", id.get()));
        }
        Ok(self.requests.remove(&id).unwrap_or_default())
    }

    fn stretch(&self, piece: &Piece) -> Result<Stretch, String> {
        let (owner, start, limit) = match piece.memory {
            Memory::Request { id, offset } => {
                let payload = self.requests.get(&id);
                let payload = payload.ok_or_else(|| format!("no request {} is in flight", id.get()))?;
                (Some(id), size(offset), payload.len())
            }
            Memory::Pool { page, offset } => {
                (None, size(page.get()) * BLOCK_BYTES + size(offset), self.pool.len())
            }
        };
        let end = start + size(piece.length);
        if end > limit || piece.length == 0 {
            return Err(format!("{piece:?} is outside of memory: {limit} bytes are there"));
        }
        Ok(Stretch { owner, start, end })
    }

    /// Notes that a submission uses pieces until [`DriverMemory::release`].
    ///
    /// # Errors
    /// If a piece lies outside of memory, or is in use in a way that does not go together with this one.
    pub fn guard(&mut self, submission: u64, pieces: &[Piece], access: Access) -> Result<(), String> {
        let mut stretches = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            self.check_free(&stretch, access)?;
            stretches.push((stretch, access));
        }
        self.guarded.insert(submission, stretches);
        Ok(())
    }

    fn check_free(&self, stretch: &Stretch, access: Access) -> Result<(), String> {
        for (submission, used) in &self.guarded {
            let conflict = used.iter().find(|(other, other_access)| {
                stretch.overlaps(other) && (access == Access::Target || *other_access == Access::Target)
            });
            if let Some((other, other_access)) = conflict {
                return Err(format!(
                    "{access:?} {stretch:?} is in use by submission {submission} as {other_access:?} {other:?}"
                ));
            }
        }
        Ok(())
    }

    /// Ends the use of memory by a submission.
    pub fn release(&mut self, submission: u64) {
        self.guarded.remove(&submission);
    }

    fn slice(&self, stretch: &Stretch) -> &[u8] {
        match stretch.owner {
            Some(id) => &self.requests[&id][stretch.start..stretch.end],
            None => &self.pool[stretch.start..stretch.end],
        }
    }

    fn slice_mut(&mut self, stretch: &Stretch) -> &mut [u8] {
        match stretch.owner {
            Some(id) => {
                let payload = self.requests.get_mut(&id).expect("the stretch was checked");
                &mut payload[stretch.start..stretch.end]
            }
            None => &mut self.pool[stretch.start..stretch.end],
        }
    }

    /// The bytes of pieces, joined.
    ///
    /// # Errors
    /// If a piece lies outside of memory.
    pub fn gather(&self, pieces: &[Piece]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend_from_slice(self.slice(&self.stretch(piece)?));
        }
        Ok(bytes)
    }

    /// Fills pieces with bytes.
    ///
    /// # Errors
    /// If a piece lies outside of memory.
    pub fn scatter(&mut self, pieces: &[Piece], mut bytes: &[u8]) -> Result<(), String> {
        for piece in pieces {
            let stretch = self.stretch(piece)?;
            let (head, tail) = bytes.split_at(size(piece.length));
            self.slice_mut(&stretch).copy_from_slice(head);
            bytes = tail;
        }
        Ok(())
    }

    /// Copies within memory at once.
    ///
    /// # Errors
    /// If a piece lies outside of memory or is in use.
    pub fn copy(&mut self, from: Memory, to: Memory, length: u32) -> Result<(), String> {
        let source = self.stretch(&Piece { memory: from, length })?;
        self.check_free(&source, Access::Source)?;
        let bytes = self.slice(&source).to_vec();
        self.store(to, &bytes)
    }

    /// Zeroes memory at once.
    ///
    /// # Errors
    /// If the piece lies outside of memory or is in use.
    pub fn zero(&mut self, to: Memory, length: u32) -> Result<(), String> {
        self.store(to, &vec![0; size(length)])
    }

    fn store(&mut self, to: Memory, bytes: &[u8]) -> Result<(), String> {
        let length = u32::try_from(bytes.len()).expect("came from 32 bits");
        let target = self.stretch(&Piece { memory: to, length })?;
        self.check_free(&target, Access::Target)?;
        self.slice_mut(&target).copy_from_slice(bytes);
        Ok(())
    }

    /// The whole page of the pool that a place lies in.
    ///
    /// # Errors
    /// If the place is not in the pool.
    pub fn page(&self, at: Memory) -> Result<&[u8], String> {
        match at {
            Memory::Request { .. } => Err(format!("{at:?} is no place of the pool")),
            Memory::Pool { page, offset } => {
                let start = (size(page.get()) + size(offset) / BLOCK_BYTES) * BLOCK_BYTES;
                self.pool
                    .get(start..start + BLOCK_BYTES)
                    .ok_or_else(|| format!("{at:?} is outside of the pool"))
            }
        }
    }
}
