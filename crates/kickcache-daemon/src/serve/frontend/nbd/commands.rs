//! From commands to requests of the engine, and from its replies to those of the protocol.

use std::io;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::request::{Operation, Reply, RequestId, Unmap};
use kickcache_engine::units::{ByteExtent, VolumeId};
use kickcache_nbd::{Command, CommandKind, NbdErrno};

use crate::driver::buffers::Bound;
use crate::driver::device::ZeroSpeed;
use crate::driver::executor::Driver;
use crate::serve::complaints::NO_MEMORY;
use crate::serve::core::{Asked, Core};
use crate::serve::frontend::kinds::Pending;
use crate::serve::frontend::nbd::Nbd;
use crate::serve::frontend::nbd::block_status::block_status;
use crate::serve::frontend::nbd::connection::{Step, payload_length};
use crate::serve::frontend::nbd::request::{NbdRequest, Then};
use crate::serve::own_export;

impl Nbd {
    /// Takes the commands that a client's bytes hold, until bytes or memory are used up.
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
                // It may have been stalled: then it is read from again.
                Step::NeedInput => return self.watch_input(core, self.clients.id(index)),
                Step::Closed => return self.clients.touch(index),
                Step::StartTls => {
                    if !self.start_tls(core, index) {
                        return self.close(core, index);
                    }
                }
                Step::Stalled => return self.clients.stall(index),
                Step::Write(command, id) => self.begin(core, index, command, id),
                Step::Admit(command) => {
                    if !self.admit(core, index, command) {
                        return self.clients.stall(index);
                    }
                }
            }
        }
    }

    /// Admits, answers or refuses a command; `false` if there is no memory for it yet.
    fn admit<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16, command: Command) -> bool {
        let Some(connection) = self.clients.at(index) else { return true };
        let volume = connection.volumes[command.export];
        if !core.is_serving() || connection.is_leaving {
            connection.refuse(command, NbdErrno::Shutdown);
            return true;
        }
        let length = payload_length(&command);
        if !connection.has_room(length, &core.limits) {
            return false;
        }
        match command.kind {
            CommandKind::BlockStatus { .. } => {
                let id = core.volumes[volume].info.id;
                if core.driver.has_extents(Device::Origin(id)) {
                    connection.begin_status();
                    self.questions.ask(core, volume, self.clients.id(index), command);
                    return true;
                }
                let extents = block_status(&core.engine, &core.driver, id, extent(&command));
                connection.answer_status(command, &extents);
                return true;
            }
            CommandKind::WriteZeroes { fast: true, .. } if core.volumes[volume].zeroes == ZeroSpeed::Slow => {
                connection.refuse(command, NbdErrno::NotSupported);
                return true;
            }
            CommandKind::Read { .. }
            | CommandKind::Write { .. }
            | CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache => {}
        }
        let bound = if connection.is_idle() { Bound::Ignored } else { Bound::Kept };
        let id = match allocate(&mut core.driver, volume, &command, bound) {
            Ok(Some(id)) => id,
            Ok(None) => return false,
            Err(error) => {
                let line = format_args!("a request of {length} bytes failed: no memory ({error})");
                core.complaints.say(core.now, NO_MEMORY, line);
                connection.refuse(command, NbdErrno::Io);
                return true;
            }
        };
        connection.admit(command, id);
        if !matches!(command.kind, CommandKind::Write { .. }) {
            self.begin(core, index, command, id);
        }
        true
    }

    fn begin<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16, command: Command, id: RequestId) {
        let connection = self.clients.id(index);
        let Some(served) = self.clients.at(index) else { return };
        let volume = core.volumes[served.volumes[command.export]].info.id;
        let Task { operation, then } = task(command.kind);
        let asked = Asked { id, volume, operation, extent: extent(&command) };
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
        if request.then == Then::Flush && result.is_ok() {
            let extent = ByteExtent { start: 0, length: 0 };
            let asked = Asked { id, volume, operation: Operation::Flush, extent };
            return core.begin(&asked, Pending::Nbd(NbdRequest { then: Then::Reply, ..request }));
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

fn allocate(
    driver: &mut Driver,
    volume: usize,
    command: &Command,
    bound: Bound,
) -> io::Result<Option<RequestId>> {
    match command.kind {
        CommandKind::Read { .. } | CommandKind::Write { .. } => {
            driver.buffers().allocate(volume, extent(command), bound)
        }
        CommandKind::Flush
        | CommandKind::Trim { .. }
        | CommandKind::WriteZeroes { .. }
        | CommandKind::Cache
        | CommandKind::BlockStatus { .. } => Ok(Some(driver.buffers().allocate_empty())),
    }
}

fn extent(command: &Command) -> ByteExtent {
    ByteExtent { start: command.offset, length: command.length }
}

/// What a command is for the engine.
struct Task {
    operation: Operation,
    then: Then,
}

fn task(kind: CommandKind) -> Task {
    let operation = match kind {
        CommandKind::Read { .. } => Operation::Read,
        CommandKind::Write { .. } => Operation::Write(kind.durability()),
        CommandKind::Flush => Operation::Flush,
        CommandKind::Trim { fua: true } => return Task { operation: Operation::Discard, then: Then::Flush },
        CommandKind::Trim { fua: false } => Operation::Discard,
        CommandKind::WriteZeroes { no_hole, .. } => {
            let unmap = if no_hole { Unmap::Forbid } else { Unmap::Allow };
            Operation::WriteZeroes { unmap, durability: kind.durability() }
        }
        CommandKind::Cache => Operation::Promote,
        CommandKind::BlockStatus { .. } => unreachable!("answered when it was admitted"),
    };
    Task { operation, then: Then::Reply }
}
