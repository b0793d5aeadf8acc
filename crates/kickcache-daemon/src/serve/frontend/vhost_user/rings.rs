//! From rings to requests of the engine, and from its replies to the rings.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::request::{Errno, Operation, Reply, RequestId, Unmap};
use kickcache_vhost_user::{GuestRequest, Outcome, QUEUE_COUNT_MAX, RequestKind};

use crate::driver::buffers::Bound;
use crate::serve::complaints::NO_MEMORY;
use crate::serve::core::{Asked, Core};
use crate::serve::frontend::kinds::Pending;
use crate::serve::frontend::vhost_user::VhostUser;
use crate::serve::frontend::vhost_user::request::VhostUserRequest;

/// Requests taken from a guest before the others get their turn.
const TAKES_MAX: usize = 256;

impl VhostUser {
    /// Takes what guests made available, until rings, memory or the turn are used up. What waited for memory was taken
    /// before: it goes on also when its queue, or the server, takes nothing more.
    pub(crate) fn take_requests<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        for index in 0..self.ports.len() {
            if let Some(request) = self.ports[index].held.take() {
                self.admit_or_hold(core, index, request);
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
                self.admit_or_hold(core, index, request);
            }
        }
    }

    fn admit_or_hold<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize, request: GuestRequest) {
        self.ports[index].held = self.admit(core, index, request);
    }

    /// Begins a request, or gives it back if there is no memory for it yet.
    fn admit<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        index: usize,
        request: GuestRequest,
    ) -> Option<GuestRequest> {
        let port = &mut self.ports[index];
        let (length, volume) = (request.payload_length(), port.volume);
        let alone = port.bytes == 0;
        if !alone && port.bytes + request.memory_length() > core.limits.connection_bytes_max {
            return Some(request);
        }
        let bound = if alone { Bound::Ignored } else { Bound::Kept };
        let allocated = match length {
            0 => Ok(Some(core.driver.buffers().allocate_empty())),
            _ => core.driver.buffers().allocate(volume, request.extent(), bound),
        };
        match allocated {
            Ok(Some(id)) => {
                port.bytes += request.memory_length();
                self.begin(core, id, VhostUserRequest { port: index, request });
            }
            Ok(None) => return Some(request),
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
        core.begin(&Asked { id, volume, operation, extent }, Pending::VhostUser(request));
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
