//! Converts commands into requests to the engine, and the engine's replies into replies of the protocol.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::request::{Operation, Reply, RequestId, Unmap};
use kickcache_engine::units::{ByteExtent, VolumeId};
use kickcache_nbd::{Command, CommandKind, NbdErrno};

use crate::driver::budget::{Claim, Grant};
use crate::driver::buffers::Buffers;
use crate::driver::device::ZeroSpeed;
use crate::serve::complaints::NO_MEMORY;
use crate::serve::core::{Core, EngineRequest};
use crate::serve::frontend::kinds::Pending;
use crate::serve::frontend::nbd::block_status::block_status;
use crate::serve::frontend::nbd::connection::Step;
use crate::serve::frontend::nbd::key::ConnectionId;
use crate::serve::frontend::nbd::payload::payload_length;
use crate::serve::frontend::nbd::request::{NbdRequest, NextStep};
use crate::serve::frontend::nbd::stall::Stall;
use crate::serve::frontend::nbd::{Nbd, client_key};
use crate::serve::own_export;

impl Nbd {
    /// Takes the commands that a client's bytes hold.
    pub(super) fn process<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16) {
        loop {
            let Some(connection) = self.clients.at(index) else { return };
            let handshakes = connection.handshaking;
            let step = connection.step(core.driver.buffers(), &core.limits);
            let begins = connection.handshaking && connection.is_transmission();
            connection.handshaking &= !begins;
            let owes = connection.owes();
            if handshakes && let Some(name) = connection.take_unknown() {
                own_export::take_unknown(&name);
            }
            if begins {
                self.clients.handshakes -= 1;
            }
            if owes {
                self.clients.touch(index);
            }
            if handshakes {
                self.tell_denied(core, index);
            }
            match step {
                // A connection that was stalled is read from again.
                Step::NeedInput => return self.watch_input(core, self.clients.id(index)),
                Step::Closed => return self.clients.touch(index),
                Step::StartTls => {
                    if !self.start_tls(core, index) {
                        return self.close(core, index);
                    }
                }
                Step::Stalled => return self.clients.set_stall(index, Some(Stall::Limit)),
                Step::Write(command, id) => self.begin(core, index, command, id),
                Step::Admit(command) => {
                    if let Some(stall) = self.admit(core, index, command) {
                        return self.clients.set_stall(index, Some(stall));
                    }
                }
            }
        }
    }

    pub(super) fn resume<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16) {
        self.clients.set_stall(index, None);
        self.process(core, index);
    }

    pub(in crate::serve::frontend) fn on_memory<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        id: ConnectionId,
        grant: Grant,
    ) {
        match self.clients.get_mut(id) {
            Some(connection) if connection.stall == Some(Stall::Memory) => {
                connection.granted = Some(grant);
                self.resume(core, id.index);
            }
            Some(_) | None => core.driver.buffers().budget.release(grant),
        }
    }

    /// Admits, answers or refuses a command; or returns why the command has to wait.
    fn admit<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16, command: Command) -> Option<Stall> {
        let id = self.clients.id(index);
        let connection = self.clients.at(index)?;
        let volume = connection.volumes[command.export];
        if !core.is_serving() || connection.is_leaving {
            if let Some(grant) = connection.granted.take() {
                core.driver.buffers().budget.release(grant);
            }
            connection.refuse(command, NbdErrno::Shutdown);
            return None;
        }
        let length = payload_length(&command);
        if !connection.has_room(length, &core.limits) {
            return Some(Stall::Limit);
        }
        match command.kind {
            CommandKind::BlockStatus { .. } => {
                self.admit_status(core, volume, index, command);
                return None;
            }
            CommandKind::WriteZeroes { fast: true, .. } if core.volumes[volume].zeroes == ZeroSpeed::Slow => {
                connection.refuse(command, NbdErrno::NotSupported);
                return None;
            }
            CommandKind::Read { .. }
            | CommandKind::Write { .. }
            | CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache => {}
        }
        let buffers = core.driver.buffers();
        let allocated = if length == 0 {
            Ok(buffers.allocate_empty())
        } else {
            let extent = extent(&command);
            let (bytes, held, key) = (Buffers::cost(extent), connection.held_bytes(), client_key(id));
            let granted = connection.granted.take();
            let granted = granted.or_else(|| buffers.budget.reserve(Claim { volume, bytes, held, key }));
            let Some(grant) = granted else { return Some(Stall::Memory) };
            buffers.allocate(grant, extent)
        };
        match allocated {
            Ok(id) => {
                connection.admit(command, id);
                if !matches!(command.kind, CommandKind::Write { .. }) {
                    self.begin(core, index, command, id);
                }
            }
            Err(error) => {
                let line = format_args!("a request of {length} bytes failed: no memory ({error})");
                core.complaints.say(core.now, NO_MEMORY, line);
                connection.refuse(command, NbdErrno::Io);
            }
        }
        None
    }

    /// Answers a block status command, now or when the origin has answered.
    fn admit_status<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
        index: u16,
        command: Command,
    ) {
        let connection_id = self.clients.id(index);
        let Some(connection) = self.clients.at(index) else { return };
        let id = core.volumes[volume].info.id;
        if core.driver.has_extents(Device::Origin(id)) {
            connection.begin_status();
            return self.questions.ask(core, volume, connection_id, command);
        }
        let extents = block_status(&core.engine, &core.driver, id, extent(&command));
        connection.answer_status(command, &extents);
    }

    fn begin<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16, command: Command, id: RequestId) {
        let connection = self.clients.id(index);
        let Some(served) = self.clients.at(index) else { return };
        let volume = core.volumes[served.volumes[command.export]].info.id;
        let Task { operation, then } = task(command.kind);
        let asked = EngineRequest { id, volume, operation, extent: extent(&command) };
        core.begin(&asked, Pending::Nbd(NbdRequest { connection, command, then }));
    }

    pub(in crate::serve::frontend) fn on_reply<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        volume: VolumeId,
        request: NbdRequest,
        reply: &Reply,
    ) {
        let &Reply { id, result, .. } = reply;
        if request.then == NextStep::Flush && result.is_ok() {
            let extent = ByteExtent { start: 0, length: 0 };
            let asked = EngineRequest { id, volume, operation: Operation::Flush, extent };
            return core.begin(&asked, Pending::Nbd(NbdRequest { then: NextStep::Reply, ..request }));
        }
        match self.clients.get_mut(request.connection) {
            Some(connection) => {
                connection.reply(core.driver.buffers(), &request.command, id, result);
                self.clients.touch(request.connection.index);
            }
            None => core.driver.buffers().release(id),
        }
    }
}

fn extent(command: &Command) -> ByteExtent {
    ByteExtent { start: command.offset, length: command.length }
}

struct Task {
    operation: Operation,
    then: NextStep,
}

fn task(kind: CommandKind) -> Task {
    let operation = match kind {
        CommandKind::Read { .. } => Operation::Read,
        CommandKind::Write { .. } => Operation::Write(kind.durability()),
        CommandKind::Flush => Operation::Flush,
        CommandKind::Trim { fua: true } => {
            return Task { operation: Operation::Discard, then: NextStep::Flush };
        }
        CommandKind::Trim { fua: false } => Operation::Discard,
        CommandKind::WriteZeroes { no_hole, .. } => {
            let unmap = if no_hole { Unmap::Forbid } else { Unmap::Allow };
            Operation::WriteZeroes { unmap, durability: kind.durability() }
        }
        CommandKind::Cache => Operation::Promote,
        CommandKind::BlockStatus { .. } => unreachable!("answered when it was admitted"),
    };
    Task { operation, then: NextStep::Reply }
}
