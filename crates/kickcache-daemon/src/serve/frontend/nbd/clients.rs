//! The connections by number, and the list of connections with pending work.

use kickcache_engine::time::Instant;

use crate::serve::frontend::nbd::connection::Connection;
use crate::serve::frontend::nbd::key::ConnectionId;
use crate::serve::frontend::nbd::stall::Stall;

#[derive(Default)]
pub(crate) struct Clients {
    slots: Vec<Slot>,
    free: Vec<u16>,
    pub(super) count: usize,
    pub(super) touched: Vec<u16>,
    pub(super) stalled: usize,
    pub(super) handshakes: usize,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl Clients {
    pub(super) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u16::try_from(self.slots.len() - 1).expect("connections are bounded")
        });
        let slot = &mut self.slots[usize::from(index)];
        slot.connection = Some(Box::new(connection));
        self.count += 1;
        self.handshakes += 1;
        ConnectionId { index, generation: slot.generation }
    }

    pub(super) fn remove(&mut self, index: u16) -> Option<Box<Connection>> {
        let slot = self.slots.get_mut(usize::from(index))?;
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.count -= 1;
        if connection.handshaking {
            self.handshakes -= 1;
        }
        self.stalled -= usize::from(connection.stall.is_some());
        Some(connection)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|slot| slot.connection.as_deref())
    }

    pub(super) fn at(&mut self, index: u16) -> Option<&mut Connection> {
        self.slots.get_mut(usize::from(index))?.connection.as_deref_mut()
    }

    pub(super) fn id(&self, index: u16) -> ConnectionId {
        ConnectionId { index, generation: self.slots[usize::from(index)].generation }
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(usize::from(id.index))?;
        if slot.generation == id.generation { slot.connection.as_deref_mut() } else { None }
    }

    pub(super) fn touch(&mut self, index: u16) {
        let Some(connection) = self.at(index) else { return };
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push(index);
        }
    }

    pub(super) fn set_stall(&mut self, index: u16, stall: Option<Stall>) {
        let Some(connection) = self.at(index) else { return };
        let before = std::mem::replace(&mut connection.stall, stall);
        self.stalled += usize::from(stall.is_some());
        self.stalled -= usize::from(before.is_some());
    }

    /// Every number that a connection has or had.
    pub(super) fn indices(&self) -> std::ops::Range<u16> {
        0..u16::try_from(self.slots.len()).expect("connections are bounded")
    }

    pub(super) fn connected(&self, listener: usize) -> usize {
        let here = self.iter().filter(|connection| connection.listener == listener);
        here.filter(|connection| !connection.handshaking).count()
    }

    /// The connection of a listener with the longest handshake, if at least `count` are in their handshakes.
    pub(super) fn oldest_of(&self, count: usize, listener: usize) -> Option<u16> {
        let here = self.indices().zip(&self.slots).filter_map(|(index, slot)| {
            let connection = slot.connection.as_deref()?;
            (connection.handshaking && connection.listener == listener)
                .then_some((connection.deadline, index))
        });
        let here: Vec<_> = here.collect();
        if here.len() < count { None } else { here.into_iter().min().map(|(_, index)| index) }
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        let waiting = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        waiting.filter(|connection| connection.handshaking).map(|connection| connection.deadline).min()
    }

    pub(super) fn all_quiet(&self) -> bool {
        self.slots.iter().filter_map(|slot| slot.connection.as_deref()).all(Connection::is_quiet)
    }
}
