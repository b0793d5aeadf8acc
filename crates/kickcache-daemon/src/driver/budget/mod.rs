//! The payload memory of an event loop: grants to requests, and requests that wait.
//!
//! A request is charged to the first of three pools with room for its whole payload: half of a volume's part,
//! divided between its connections; the other half of the part; the common memory of the daemon. While
//! requests of a volume wait, its new requests use the first pool or wait as well.
//!
//! Invariants:
//! * Charges of a loop never exceed its part plus the common memory.
//! * A request has all of its memory or none.
//! * Requests of a volume are granted memory in their order, except those of connections with little in
//!   flight.
//! * Of the volumes with waiting requests, the volume with the least common memory is next to get some, and
//!   among equal volumes the volume with the oldest grant; with several volumes, each gets at most half, or a
//!   single larger request.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use kickcache_engine::config::VOLUME_COUNT_MAX;

use crate::driver::common_memory::Member;
use crate::driver::payload_memory::PayloadMemory;
use crate::wakeup::Wakeup;

/// The number of connections between which a volume's memory for connections is divided.
const CONNECTION_COUNT: usize = 128;

/// The memory for payload that an event loop may use.
#[derive(Debug)]
pub struct Budget {
    member: Member,
    /// Bytes that belong to this loop.
    part: usize,
    part_used: usize,
    common_used: usize,
    common_grants: u64,
    volume_count: usize,
    /// Whether the daemon started with several volumes.
    is_shared: bool,
    accounts: Vec<Account>,
    lines: BTreeSet<usize>,
    ticket: u64,
    /// Whether waiting requests are to be polled again.
    has_changed: bool,
}

#[derive(Debug, Default)]
struct Account {
    by_connections: usize,
    own: usize,
    common: usize,
    /// The number of the last grant of common memory to the volume.
    last: u64,
    line: VecDeque<WaitingRequest>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingRequest {
    ticket: u64,
    key: u64,
    bytes: usize,
}

/// A request that may get common memory: the smallest in the order of the fields is next.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GrantCandidate {
    taken: usize,
    last: u64,
    ticket: u64,
    volume: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) volume: usize,
    pub(crate) bytes: usize,
    /// Bytes that the connection or virtual machine has in use; 0 for a block device.
    pub(crate) held: usize,
    pub(crate) key: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pool {
    Connections,
    Volume,
    Common,
}

/// Memory for a request; [`Budget::release`] takes it back.
#[derive(PartialEq, Eq, Debug)]
#[must_use]
pub(crate) struct Grant {
    volume: usize,
    pool: Pool,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct LateGrant {
    pub(crate) key: u64,
    pub(crate) grant: Grant,
}

impl Budget {
    /// The budget of an event loop with `volumes` volumes; `wakeup` wakes the loop.
    pub fn new(memory: &PayloadMemory, volumes: usize, wakeup: Arc<Wakeup>) -> Budget {
        Budget::of(memory, volumes, Member::new(Arc::clone(&memory.common), wakeup))
    }

    /// A budget of `bytes` that no other event loop shares.
    pub fn alone(bytes: usize) -> Budget {
        let memory = PayloadMemory::new(bytes, 1);
        Budget::of(&memory, 1, Member::alone(Arc::clone(&memory.common)))
    }

    fn of(memory: &PayloadMemory, volumes: usize, member: Member) -> Budget {
        Budget {
            member,
            part: memory.part(volumes),
            part_used: 0,
            common_used: 0,
            common_grants: 0,
            volume_count: volumes,
            is_shared: memory.is_shared(),
            accounts: (0..VOLUME_COUNT_MAX.max(volumes)).map(|_| Account::default()).collect(),
            lines: BTreeSet::new(),
            ticket: 0,
            has_changed: false,
        }
    }

    /// `count` volumes share the loop's part from here on.
    pub(crate) fn set_volumes(&mut self, count: usize) {
        self.volume_count = count;
    }

    pub(crate) fn used(&self) -> usize {
        self.part_used + self.common_used
    }

    pub(crate) fn unused_part(&self) -> usize {
        self.part - self.part_used
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.lines.iter().map(|volume| self.accounts[*volume].line.len()).sum()
    }

    pub(crate) fn has_news(&self) -> bool {
        self.has_changed && !self.lines.is_empty()
    }

    /// Whether requests of a volume wait for memory, or other requests wait while the volume has common memory.
    pub(crate) fn is_wanted(&self, volume: usize) -> bool {
        let account = &self.accounts[volume];
        let others_wait = !self.lines.is_empty() || self.member.is_wanted();
        !account.line.is_empty() || account.common > 0 && others_wait
    }

    /// Whether requests of this loop wait for memory, or another loop waits while this loop has common memory.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.lines.is_empty() || self.member.is_wanted() && self.common_used > 0
    }

    /// Memory for a request; `None` if it has to wait ([`Budget::poll_grant`]).
    pub(crate) fn reserve(&mut self, claim: Claim) -> Option<Grant> {
        let Claim { volume, bytes, held, key } = claim;
        let half = self.share() / 2;
        let is_little = held + bytes <= half / CONNECTION_COUNT;
        if is_little && self.accounts[volume].by_connections + bytes <= half && self.has_part(bytes) {
            return Some(self.charge(volume, Pool::Connections, bytes));
        }
        if self.accounts[volume].line.is_empty() {
            if self.fits_volume(volume, bytes) {
                return Some(self.charge(volume, Pool::Volume, bytes));
            }
            if self.may_take_common(volume, bytes) && self.member.take(bytes) {
                return Some(self.charge(volume, Pool::Common, bytes));
            }
        }
        self.ticket += 1;
        self.accounts[volume].line.push_back(WaitingRequest { ticket: self.ticket, key, bytes });
        self.lines.insert(volume);
        self.has_changed = true;
        None
    }

    /// Grants memory to the next waiting request, if enough is free.
    pub(crate) fn poll_grant(&mut self) -> Option<LateGrant> {
        if self.lines.is_empty() {
            return None;
        }
        let own = self.lines.iter().copied().find(|volume| {
            self.accounts[*volume].line.front().is_some_and(|first| self.fits_volume(*volume, first.bytes))
        });
        if let Some(volume) = own {
            return self.grant_first(volume, Pool::Volume);
        }
        match self.next_for_common() {
            Some(next) if self.member.take_or_wait(next.bytes) => {
                return self.grant_first(next.volume, Pool::Common);
            }
            Some(_) => {}
            None => self.member.end_wait(),
        }
        self.has_changed = false;
        None
    }

    fn next_for_common(&self) -> Option<GrantCandidate> {
        let firsts = self.lines.iter().filter_map(|volume| {
            let account = &self.accounts[*volume];
            let WaitingRequest { ticket, bytes, .. } = *account.line.front()?;
            let next =
                GrantCandidate { taken: account.common, last: account.last, ticket, volume: *volume, bytes };
            self.may_take_common(*volume, bytes).then_some(next)
        });
        firsts.min()
    }

    fn grant_first(&mut self, volume: usize, pool: Pool) -> Option<LateGrant> {
        let first = self.accounts[volume].line.pop_front()?;
        self.forget_empty_line(volume);
        let grant = self.charge(volume, pool, first.bytes);
        Some(LateGrant { key: first.key, grant })
    }

    pub(crate) fn cancel(&mut self, key: u64) {
        let lines: Vec<usize> = self.lines.iter().copied().collect();
        for volume in lines {
            self.accounts[volume].line.retain(|waiting| waiting.key != key);
            self.forget_empty_line(volume);
        }
        self.has_changed = true;
        if self.lines.is_empty() {
            self.member.end_wait();
        }
    }

    fn forget_empty_line(&mut self, volume: usize) {
        if self.accounts[volume].line.is_empty() {
            self.lines.remove(&volume);
        }
        if self.lines.is_empty() {
            self.member.end_wait();
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the caller must not keep the grant")]
    pub(crate) fn release(&mut self, grant: Grant) {
        let Grant { volume, pool, bytes } = grant;
        *self.charged(volume, pool) -= bytes;
        match pool {
            Pool::Connections | Pool::Volume => self.part_used -= bytes,
            Pool::Common => {
                self.common_used -= bytes;
                self.member.give_back(bytes);
            }
        }
        self.has_changed = true;
    }

    fn charge(&mut self, volume: usize, pool: Pool, bytes: usize) -> Grant {
        *self.charged(volume, pool) += bytes;
        match pool {
            Pool::Connections | Pool::Volume => self.part_used += bytes,
            Pool::Common => {
                self.common_used += bytes;
                self.common_grants += 1;
                self.accounts[volume].last = self.common_grants;
            }
        }
        Grant { volume, pool, bytes }
    }

    fn charged(&mut self, volume: usize, pool: Pool) -> &mut usize {
        let account = &mut self.accounts[volume];
        match pool {
            Pool::Connections => &mut account.by_connections,
            Pool::Volume => &mut account.own,
            Pool::Common => &mut account.common,
        }
    }

    fn share(&self) -> usize {
        self.part / self.volume_count.max(1)
    }

    fn has_part(&self, bytes: usize) -> bool {
        bytes <= self.unused_part()
    }

    fn fits_volume(&self, volume: usize, bytes: usize) -> bool {
        self.accounts[volume].own + bytes <= self.share() / 2 && self.has_part(bytes)
    }

    fn may_take_common(&self, volume: usize, bytes: usize) -> bool {
        let taken = self.accounts[volume].common;
        !(self.is_shared || self.volume_count > 1) || taken == 0 || taken + bytes <= self.member.limit() / 2
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.member.give_back(self.common_used);
    }
}

#[cfg(test)]
mod tests;
