//! A remote origin: an export of an NBD server.
//!
//! While volumes are served, the driver's thread never waits for the server: a thread of its own
//! ([`session`]) owns the connections.
//!
//! Start with [`session`].

mod comparison;
mod connect_thread;
mod exchange;
mod facts;
mod job;
mod links;
mod outage;
mod outage_log;
mod outcome;
mod patience;
mod refusal;
mod server_fault;
mod session;

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kickcache_engine::format::superblock::{SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS};
use kickcache_engine::samples::Sample;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_nbd::client::{Client, ClientError};

use self::comparison::Comparison;
use self::exchange::{Exchange, Order};
use self::facts::Facts;
use self::job::OriginJob;
use self::links::{Links, dial, is_own};
use self::outcome::Outcome;
use self::patience::{PATIENCE_MAX, ServerWait};
use self::refusal::refusal;
use self::session::{Session, Settings};
use crate::driver::device::AccessMode;
use crate::driver::minimum_block::MinimumBlock;
use crate::driver::queued_device::{ExtentsTold, QueuedDevice, QueuedEnd, QueuedRequest, ServerOutage};
use crate::plan::nbd_uri::NbdUri;
use crate::plan::origin_claims::OriginClaims;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;
use crate::serve::stop_wish::StopWish;

pub(crate) struct NbdOrigin {
    uri: NbdUri,
    other_names: Vec<String>,
    facts: Facts,
    looks_like_cache: bool,
    has_extents: bool,
    patience: Duration,
    /// The connections, until the comparison takes them.
    links: Option<Links>,
    /// The comparison of the connections, until the thread has them.
    comparison: Option<Result<Comparison, ClientError>>,
    exchange: Arc<Exchange>,
    inbox: VecDeque<Outcome>,
    told: VecDeque<ExtentsTold>,
    /// The bytes of the read that ended last; empty after another operation that succeeded.
    data: Vec<u8>,
}

impl NbdOrigin {
    /// # Errors
    /// [`ServeError::Volume`], [`ServeError::System`], or [`ServeError::Stopped`] after a stop request.
    pub(super) fn open(spec: &VolumeSpec, uri: &NbdUri, wish: &StopWish) -> Result<NbdOrigin, ServeError> {
        let timeout = spec.origin_timeout.span();
        let patience = PATIENCE_MAX.min(timeout);
        let (asked, access, claims) = (uri.clone(), spec.access, spec.claims);
        let waited = ServerWait { volume: &spec.name, uri };
        let ProbedServer { other_names, links, facts, looks_like_cache } =
            waited.ask(wish, move || meet(&asked, patience, access, claims))?;
        let exchange = Exchange::new().map_err(ServeError::system("open an eventfd"))?;
        let exchange = Arc::new(exchange);
        let settings = Settings { volume: spec.name.clone(), uri: uri.clone(), facts, timeout, patience };
        let session = Session::new(settings, Arc::clone(&exchange));
        thread::Builder::new()
            .name("origin".into())
            .spawn(move || session.run())
            .map_err(ServeError::system("start a thread"))?;
        Ok(NbdOrigin {
            uri: uri.clone(),
            other_names,
            facts,
            looks_like_cache,
            has_extents: links.export.allocation.is_some(),
            patience,
            links: Some(links),
            comparison: None,
            exchange,
            inbox: VecDeque::new(),
            told: VecDeque::new(),
            data: Vec::new(),
        })
    }

    pub(super) fn identity(&self) -> String {
        self.uri.identity()
    }

    /// The other identities of the origin.
    pub(super) fn other_names(&self) -> &[String] {
        &self.other_names
    }

    /// The size of the export in bytes.
    pub(super) fn size(&self) -> u64 {
        self.facts.size
    }

    pub(super) fn minimum_block(&self) -> MinimumBlock {
        self.facts.minimum_block
    }

    /// Whether the export has a superblock of a cache device.
    pub(super) fn looks_like_cache(&self) -> bool {
        self.looks_like_cache
    }
}

/// The longest wait for each answer of the handshake that shows whether the server is this process.
const OWN_PATIENCE: Duration = Duration::from_secs(5);

/// Refuses an export of this process, since the volume would wait for itself.
///
/// # Errors
/// [`ServeError::Volume`], or [`ServeError::System`] without random bytes.
pub(super) fn check_not_own(spec: &VolumeSpec, uri: &NbdUri) -> Result<(), ServeError> {
    if !is_own(uri, OWN_PATIENCE.min(spec.origin_timeout.span()))? {
        return Ok(());
    }
    let what = format!(
        "its origin {uri} is an export of this daemon, so that its requests would wait for themselves; \
         give the origin of that export, or an export of another server"
    );
    Err(ServeError::Volume { name: spec.name.clone(), what })
}

struct ProbedServer {
    other_names: Vec<String>,
    links: Links,
    facts: Facts,
    looks_like_cache: bool,
}

fn meet(
    uri: &NbdUri,
    patience: Duration,
    access: AccessMode,
    claims: OriginClaims,
) -> Result<ProbedServer, String> {
    let away = |error: ClientError| refusal(&error, patience);
    let mut client = dial(uri, patience).map_err(away)?;
    let facts = Facts::of(&client.export(), access, claims)?;
    let looks_like_cache = look_and_flush(&mut client, access, facts.minimum_block).map_err(away)?;
    // The first connection stays open, since some servers end with their last client.
    let links = Links::over(client, uri, patience).map_err(away)?;
    Ok(ProbedServer { other_names: uri.other_identities(), links, facts, looks_like_cache })
}

/// Reads the places of a cache device's superblocks, and flushes the origin of a writable volume if
/// it can be flushed.
fn look_and_flush(client: &mut Client, access: AccessMode, block: MinimumBlock) -> Result<bool, ClientError> {
    let size = client.export().size;
    let mut found = false;
    for start in SUPERBLOCK_OFFSETS.into_iter().filter(|start| start + BLOCK_SIZE <= size) {
        let read = block.widened(ByteExtent { start, length: BLOCK_SIZE });
        let index = |length: u64| usize::try_from(length).expect("blocks are small");
        let mut bytes = vec![0; index(read.length)];
        client.read_at(read.start, &mut bytes)?;
        found |= bytes[index(start - read.start)..].starts_with(&SUPERBLOCK_MAGIC);
    }
    if access == AccessMode::ReadWrite && client.export().has_flush() {
        client.flush()?;
    }
    Ok(found)
}

impl QueuedDevice for NbdOrigin {
    fn submit(&mut self, _now: Instant, token: u64, request: QueuedRequest<'_>) {
        self.exchange.give(Order::Do(OriginJob::new(token, request)));
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        if self.inbox.is_empty() {
            self.exchange.collect(&mut self.inbox);
        }
        loop {
            match self.inbox.pop_front()? {
                Outcome::Restarted => {
                    self.inbox.push_front(Outcome::Restarted);
                    return None;
                }
                Outcome::Told(told) => self.told.push_back(told),
                Outcome::Ended { token, result } => {
                    let result = result.map(|data| self.data = data);
                    return Some(QueuedEnd { token, result });
                }
            }
        }
    }

    fn begin_compare(&mut self, samples: &[Sample]) {
        let Some(links) = self.links.take() else { return };
        let samples = if self.facts.keeps_flushed() { samples } else { &[] };
        // Queued requests are sent now, while other origins are compared.
        let sent = |mut comparison: Comparison| comparison.advance().map(|_| comparison);
        self.comparison = Some(Comparison::begin(links, samples, self.patience).and_then(sent));
    }

    fn end_compare(&mut self) -> Result<(), String> {
        let Some(comparison) = self.comparison.take() else { return Ok(()) };
        let comparison = comparison.and_then(Comparison::finish);
        let links = comparison.map_err(|error| refusal(&error, self.patience)).and_then(Comparison::verdict);
        let links = links.map_err(|why| format!("its origin {}: {why}", self.uri))?;
        self.exchange.give(Order::Use(links));
        Ok(())
    }

    fn give_up(&mut self) {
        self.exchange.give(Order::GiveUp);
    }

    fn expect(&mut self, samples: Vec<Sample>) {
        let samples = if self.facts.keeps_flushed() { samples } else { Vec::new() };
        self.exchange.give(Order::Expect(samples));
    }

    fn has_extents(&self) -> bool {
        self.has_extents
    }

    fn ask_extents(&mut self, token: u64, extent: ByteExtent) {
        self.exchange.give(Order::Do(OriginJob::extents(token, extent)));
    }

    fn take_extents(&mut self) -> Option<ExtentsTold> {
        self.told.pop_front()
    }

    fn take_restart(&mut self) -> bool {
        let is_next = matches!(self.inbox.front(), Some(Outcome::Restarted));
        if is_next {
            self.inbox.pop_front();
        }
        is_next
    }

    fn away(&self) -> Option<ServerOutage> {
        self.exchange.away()
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        let mut left = self.data.as_slice();
        for piece in into {
            let (bytes, rest) = left.split_at(piece.len());
            piece.copy_from_slice(bytes);
            left = rest;
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.exchange.to_driver.as_fd())
    }
}

impl Drop for NbdOrigin {
    fn drop(&mut self) {
        if let Some(links) = self.links.take() {
            links.leave();
        }
        // The end of the thread is not waited for.
        self.exchange.end();
    }
}

#[cfg(test)]
mod tests;
