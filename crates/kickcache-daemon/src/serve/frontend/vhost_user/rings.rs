//! Converts entries of rings into requests to the engine, and replies back.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::request::{Errno, Operation, Reply, RequestId, Unmap};
use kickcache_vhost_user::{GuestRequest, Outcome, QUEUE_COUNT_MAX, RequestKind};

use crate::driver::budget::{Claim, Grant};
use crate::driver::buffers::Buffers;
use crate::serve::complaints::NO_MEMORY;
use crate::serve::core::{Core, EngineRequest};
use crate::serve::frontend::kinds::{Pending, WatchKey};
use crate::serve::frontend::vhost_user::VhostUser;
use crate::serve::frontend::vhost_user::key::PortKey;
use crate::serve::frontend::vhost_user::request::VhostUserRequest;

/// The most requests that are taken from a guest in one turn.
const TAKES_MAX: usize = 256;

impl VhostUser {
    /// Takes requests that guests made available, until rings, memory or the turn are used up. A request that
    /// had to wait was dequeued before: it continues even if its queue, or the server, accepts no more.
    pub(crate) fn take_requests<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        for index in 0..self.ports.len() {
            if let Some(request) = self.ports[index].take_due() {
                self.admit_or_hold(core, index, request, None);
            }
            if core.is_serving() && self.ports[index].device.is_awake() {
                self.take_from(core, index);
            }
        }
    }

    fn take_from<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize) {
        let mut left = TAKES_MAX;
        let first = self.ports[index].next_turn();
        for turn in 0..QUEUE_COUNT_MAX {
            let queue = (first + turn) % QUEUE_COUNT_MAX;
            while left > 0 && self.ports[index].held.is_none() {
                let Some(request) = self.ports[index].device.next_request(queue) else { break };
                left -= 1;
                self.admit_or_hold(core, index, request, None);
            }
        }
    }

    pub(in crate::serve::frontend) fn on_memory<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        key: PortKey,
        grant: Grant,
    ) {
        let index = usize::from(key.port);
        match self.ports[index].take_waiting(key) {
            Some(request) => self.admit_or_hold(core, index, request, Some(grant)),
            None => core.driver.buffers().budget.release(grant),
        }
    }

    fn admit_or_hold<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        index: usize,
        request: GuestRequest,
        granted: Option<Grant>,
    ) {
        self.ports[index].held = self.admit(core, index, request, granted);
    }

    /// Begins or refuses a request; returns it if it has to wait.
    fn admit<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        index: usize,
        request: GuestRequest,
        granted: Option<Grant>,
    ) -> Option<GuestRequest> {
        let port = &mut self.ports[index];
        let (length, volume) = (request.payload_length(), port.volume);
        let is_full =
            port.bytes > 0 && port.bytes + request.memory_length() > core.limits.connection_bytes_max;
        if granted.is_none() && is_full {
            return Some(request);
        }
        let buffers = core.driver.buffers();
        let allocated = if length == 0 {
            Ok(buffers.allocate_empty())
        } else {
            let (extent, key) = (request.extent(), port.memory_key(index));
            let held = usize::try_from(port.bytes).unwrap_or(usize::MAX / 2);
            let claim =
                Claim { volume, bytes: Buffers::cost(extent), held, key: WatchKey::VhostUser(key).bits() };
            let Some(grant) = granted.or_else(|| buffers.budget.reserve(claim)) else {
                port.waits_for_memory = true;
                return Some(request);
            };
            buffers.allocate(grant, extent)
        };
        match allocated {
            Ok(id) => {
                port.bytes += request.memory_length();
                self.begin(core, id, VhostUserRequest { port: index, request });
            }
            Err(error) => {
                let line = format_args!("a request of {length} bytes failed: no memory ({error})");
                core.complaints.say(core.now, NO_MEMORY, line);
                port.device.complete(&request, Outcome::Failed);
            }
        }
        None
    }

    fn begin<E: CacheEngine>(&mut self, core: &mut Core<E>, id: RequestId, begun: VhostUserRequest) {
        if matches!(begun.request.kind(), RequestKind::Write { .. })
            && begun.request.copy_payload(core.driver.buffers().payload_mut(id)).is_none()
        {
            return self.answer(core, id, &begun, Outcome::Failed);
        }
        self.hand_over(core, id, begun);
    }

    fn hand_over<E: CacheEngine>(&mut self, core: &mut Core<E>, id: RequestId, request: VhostUserRequest) {
        let volume = core.volumes[self.ports[request.port].volume].info.id;
        let (operation, extent) = (operation(request.request.kind()), request.request.extent());
        self.in_flight += 1;
        core.begin(&EngineRequest { id, volume, operation, extent }, Pending::VhostUser(request));
    }

    pub(in crate::serve::frontend) fn on_reply<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        mut ended: VhostUserRequest,
        reply: &Reply,
    ) {
        self.in_flight -= 1;
        let &Reply { id, result, .. } = reply;
        if result.is_ok() && ended.request.advance() {
            return self.hand_over(core, id, ended);
        }
        let request = &ended.request;
        let outcome = match result {
            Ok(()) if request.kind() == RequestKind::Read => {
                let delivered = request.deliver(core.driver.buffers().payload(id));
                delivered.map_or(Outcome::Failed, |()| Outcome::Done)
            }
            Ok(()) => Outcome::Done,
            Err(Errno::NotSupported) => Outcome::Unsupported,
            Err(Errno::Io | Errno::Invalid | Errno::NoSpace | Errno::NotPermitted | Errno::Shutdown) => {
                Outcome::Failed
            }
        };
        self.answer(core, id, &ended, outcome);
    }

    fn answer<E>(&mut self, core: &mut Core<E>, id: RequestId, ended: &VhostUserRequest, outcome: Outcome) {
        core.driver.buffers().release(id);
        let port = &mut self.ports[ended.port];
        port.bytes -= ended.request.memory_length();
        port.device.complete(&ended.request, outcome);
    }
}

fn operation(kind: RequestKind) -> Operation {
    match kind {
        RequestKind::Read => Operation::Read,
        RequestKind::Write { durability } => Operation::Write(durability),
        RequestKind::Flush => Operation::Flush,
        RequestKind::Discard => Operation::Discard,
        RequestKind::WriteZeroes { unmap, durability } => {
            let unmap = if unmap { Unmap::Allow } else { Unmap::Forbid };
            Operation::WriteZeroes { unmap, durability }
        }
    }
}
