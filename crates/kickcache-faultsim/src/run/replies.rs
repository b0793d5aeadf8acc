//! Replies of the engine, as the clients and the oracle see them.

use kickcache_engine::request::{Operation, Reply};

use crate::host::Host;
use crate::payload::Payload;
use crate::queue::Event;
use crate::run::{Outstanding, Simulation};
use crate::subject::Subject;
use crate::workload::Ask;

impl Simulation {
    pub(super) fn take_reply<E: Subject>(&mut self, host: &mut Host<E>, reply: Reply) -> Result<(), String> {
        let id = reply.id.get();
        self.trace.record(self.now, &[u64::from(id), u64::from(reply.result.is_err())], || {
            format!("reply {id}: {:?}", reply.result)
        });
        let outstanding = self.outstanding.remove(&reply.id);
        let outstanding =
            outstanding.ok_or_else(|| format!("a reply to request {id}, which is not in flight"))?;
        let payload = host.memory.remove(reply.id)?;
        match reply.result {
            Ok(()) => {
                self.check_flush(host, &outstanding)?;
                self.watched.on_success(reply.id, &outstanding.ask);
                self.succeed(&outstanding, &payload).map_err(|error| format!("request {id}: {error}"))?;
            }
            Err(errno) if self.plan.faults.any() || self.watched.was_out => {
                self.check_cause(host, reply.id, &outstanding.ask).map_err(|what| {
                    format!("request {id} {:?} failed with {errno:?}: {what}", outstanding.ask)
                })?;
                self.summary.errors += 1;
                self.fail(&outstanding);
            }
            Err(errno) => return Err(format!("request {id} {:?} failed with {errno:?}", outstanding.ask)),
        }
        match outstanding.client {
            Some(client) => {
                let at = self.now.plus(self.clients[client].pause());
                self.queue.push(at, Event::Client(client));
            }
            None => self.issue_verify(host),
        }
        Ok(())
    }

    fn succeed(&mut self, outstanding: &Outstanding, payload: &Payload) -> Result<(), String> {
        let Outstanding { ask: Ask { volume, operation, extent }, started, version, .. } = *outstanding;
        match operation {
            Operation::Read => self.oracle.end_read(volume, extent, started, payload)?,
            Operation::Write(durability) | Operation::WriteZeroes { durability, .. } => {
                self.oracle.end_write(version, extent, durability);
                self.acknowledge(version);
            }
            Operation::Flush => self.oracle.end_flush(volume, started),
            Operation::Discard => self.oracle.end_discard(volume, extent, started),
            Operation::Promote => self.oracle.end(started),
        }
        Ok(())
    }

    fn fail(&mut self, outstanding: &Outstanding) {
        let Outstanding { ask: Ask { volume, operation, extent }, started, version, .. } = *outstanding;
        match operation {
            Operation::Discard => self.oracle.end_discard(volume, extent, started),
            Operation::Flush => self.oracle.fail_flush(volume, started),
            Operation::Write(_) | Operation::WriteZeroes { .. } => self.oracle.fail_write(version, extent),
            Operation::Read | Operation::Promote => self.oracle.end(started),
        }
    }
}
