//! A volume's socket for virtual machines, and the device behind it.

use kickcache_vhost_user::{Device, Disk, GuestRequest, Packet, QUEUE_COUNT_MAX, Socket};

use crate::plan::frontends::serial_number::SerialNumber;
use crate::serve::frontend::listener::Listener;
use crate::serve::frontend::vhost_user::key::{Part, PortKey};
use crate::serve::volume_info::VolumeInfo;

pub(crate) struct OpenGuest {
    pub(crate) listener: Listener,
    /// Bytes of a logical block.
    pub(crate) block_size: u32,
    pub(crate) serial: SerialNumber,
}

impl OpenGuest {
    pub(super) fn port(self, volume: usize, info: &VolumeInfo) -> Port {
        let OpenGuest { listener, block_size, serial } = self;
        let VolumeInfo { size, read_only, .. } = *info;
        let disk = Disk { serial: serial.padded(), size, read_only, block_size };
        tracing::info!(event = "listening", "vhost-user is served on {} for {}", listener.address, info.name);
        Port::new(listener, disk, volume)
    }
}

pub(crate) struct Port {
    pub(crate) device: Device,
    /// Index into the volumes.
    pub(crate) volume: usize,
    pub(crate) listener: Option<Listener>,
    pub(crate) socket: Option<Socket>,
    /// Counts connections and kick descriptors, so that late events of earlier ones are recognised.
    pub(crate) generation: u32,
    pub(crate) generation_of_socket: u32,
    pub(crate) kicks: Vec<u32>,
    /// A message that waits for requests in flight.
    pub(crate) waiting: Option<Packet>,
    /// A request that waits for memory, or for the end of other requests of this guest.
    pub(crate) held: Option<GuestRequest>,
    pub(super) waits_for_memory: bool,
    /// Whether the volume is hidden, so that no virtual machine may connect.
    pub(crate) is_hidden: bool,
    pub(crate) listening: bool,
    /// Bytes of memory that requests in flight take.
    pub(crate) bytes: u64,
    /// The first queue of the last turn; each turn begins with the following queue.
    turn: u16,
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
            waits_for_memory: false,
            is_hidden: false,
            listening: false,
            bytes: 0,
            turn: 0,
        }
    }

    /// Takes the request that waited for the end of other requests of this guest.
    pub(super) fn take_due(&mut self) -> Option<GuestRequest> {
        if self.waits_for_memory { None } else { self.held.take() }
    }

    /// Takes the request that a grant is for, unless the guest has disconnected.
    pub(super) fn take_waiting(&mut self, key: PortKey) -> Option<GuestRequest> {
        if key.generation != self.generation_of_socket || !std::mem::take(&mut self.waits_for_memory) {
            return None;
        }
        self.held.take()
    }

    pub(super) fn memory_key(&self, index: usize) -> PortKey {
        let port = u16::try_from(index).expect("few volumes");
        PortKey { port, part: Part::Socket, generation: self.generation_of_socket }
    }

    /// While a request is held, no more are accepted.
    pub(crate) fn has_more(&self) -> bool {
        self.held.is_none() && self.device.has_more()
    }

    pub(crate) fn arm(&mut self) -> bool {
        self.held.is_none() && (0..QUEUE_COUNT_MAX).any(|queue| self.device.arm(queue))
    }

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
