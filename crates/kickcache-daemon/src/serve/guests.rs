//! Guests: the volumes that are served to virtual machines, one front end at a time for each.

use kickcache_engine::request::RequestId;
use kickcache_engine::time::Instant;
use kickcache_vhost_user::{Device, Disk, GuestRequest, Packet, QUEUE_COUNT_MAX, Socket};

use crate::driver::Doorbells;
use crate::serve::listener::Listener;

/// Volumes with a vhost-user socket, and their requests in flight.
#[derive(Default)]
pub(crate) struct Guests {
    pub(crate) ports: Vec<Port>,
    /// Nothing more is taken from them.
    pub(crate) closed: bool,
    pending: Vec<Option<Pending>>,
    count: usize,
}

/// A volume's socket, and the device behind it.
pub(crate) struct Port {
    pub(crate) device: Device,
    /// Index into the volumes.
    pub(crate) volume: usize,
    pub(crate) listener: Option<Listener>,
    pub(crate) socket: Option<Socket>,
    /// Counts connections and kick descriptors, so that a late event is known as such.
    pub(crate) generation: u32,
    pub(crate) generation_of_socket: u32,
    /// The generation of each queue's kick descriptor.
    pub(crate) kicks: Vec<u32>,
    /// A message that waits for requests in flight.
    pub(crate) waiting: Option<Packet>,
    /// A request that waits for memory.
    pub(crate) held: Option<GuestRequest>,
    /// Whether the listener is watched.
    pub(crate) listening: bool,
    /// Bytes of memory that requests in flight take.
    pub(crate) bytes: u64,
    /// The queue that is looked at first, another one each time.
    turn: u16,
}

/// A guest's request in flight in the engine.
pub(crate) struct Pending {
    pub(crate) port: usize,
    pub(crate) request: GuestRequest,
    /// When it went to the engine.
    pub(crate) begun: Instant,
}

/// What became ready of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GuestKey {
    pub(crate) port: u16,
    pub(crate) part: Part,
    pub(crate) generation: u32,
}

/// A descriptor of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Listener,
    Socket,
    Kick(u8),
}

impl GuestKey {
    pub(crate) fn bits(self) -> u64 {
        let part = match self.part {
            Part::Listener => 0,
            Part::Socket => 1,
            Part::Kick(queue) => 2 + u64::from(queue),
        };
        u64::from(self.generation) << 24 | part << 16 | u64::from(self.port)
    }

    pub(crate) fn from_bits(bits: u64) -> GuestKey {
        let part = match u8::try_from(bits >> 16 & 0xff).expect("masked") {
            0 => Part::Listener,
            1 => Part::Socket,
            kick => Part::Kick(kick - 2),
        };
        let port = u16::try_from(bits & 0xffff).expect("masked");
        GuestKey { port, part, generation: u32::try_from(bits >> 24 & 0xffff_ffff).expect("masked") }
    }
}

impl Guests {
    pub(crate) fn new(ports: Vec<Port>) -> Guests {
        Guests { ports, closed: false, pending: Vec::new(), count: 0 }
    }

    pub(crate) fn insert(&mut self, id: RequestId, pending: Pending) {
        let index = index(id);
        if self.pending.len() <= index {
            self.pending.resize_with(index + 1, || None);
        }
        let before = self.pending[index].replace(pending);
        assert!(before.is_none(), "request {id:?} is in flight already");
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Pending> {
        let pending = self.pending.get_mut(index(id))?.take()?;
        self.count -= 1;
        Some(pending)
    }

    /// Requests in the engine.
    pub(crate) fn in_flight(&self) -> usize {
        self.count
    }

    /// Whether nothing is in flight, or waits to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.ports.iter().all(|port| port.held.is_none())
    }
}

impl Doorbells for Guests {
    fn has_work(&self) -> bool {
        self.ports.iter().any(|port| port.is_due() || !self.closed && port.has_more())
    }

    fn arm(&mut self) -> bool {
        // Behind one that has work none is armed: nobody sleeps.
        self.ports.iter_mut().any(|port| port.is_due() || !self.closed && port.arm())
    }
}

impl Port {
    pub(crate) fn new(listener: Listener, disk: Disk, volume: usize) -> Port {
        Port {
            device: Device::new(disk),
            volume,
            listener: Some(listener),
            socket: None,
            generation: 0,
            generation_of_socket: 0,
            kicks: Vec::new(),
            waiting: None,
            held: None,
            listening: false,
            bytes: 0,
            turn: 0,
        }
    }

    /// Whether the request that waits for memory gets it. Before, an end of another of this guest wakes the loop.
    fn is_due(&self) -> bool {
        self.held.is_some() && self.bytes == 0
    }

    /// While a request waits for memory nothing more is taken.
    fn has_more(&self) -> bool {
        self.held.is_none() && self.device.has_more()
    }

    fn arm(&mut self) -> bool {
        self.held.is_none() && (0..QUEUE_COUNT_MAX).any(|queue| self.device.arm(queue))
    }

    /// The generation of a queue's kick descriptor.
    pub(crate) fn kick_mut(&mut self, queue: u16) -> &mut u32 {
        let queue = usize::from(queue);
        if self.kicks.len() <= queue {
            self.kicks.resize(queue + 1, 0);
        }
        &mut self.kicks[queue]
    }

    pub(crate) fn next_turn(&mut self) -> u16 {
        self.turn = (self.turn + 1) % QUEUE_COUNT_MAX;
        self.turn
    }

    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}

fn index(id: RequestId) -> usize {
    usize::try_from(id.get()).expect("usize has at least 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_as_written() {
        for part in [Part::Listener, Part::Socket, Part::Kick(0), Part::Kick(15)] {
            let key = GuestKey { port: 65535, part, generation: u32::MAX };
            assert_eq!(GuestKey::from_bits(key.bits()), key);
            assert!(key.bits() < 1 << 56);
        }
    }
}
