//! The connections to a control socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;

use crate::control::wire::{REQUEST_LINE_MAX, Reply, Request, read_line, write_line};

/// From this number of connections on, a new one closes another one without a running request, if there is one.
pub(super) const CONNECTION_COUNT_MAX: usize = 256;
/// A connection without bytes for this long is closed, unless its request is being executed or its client waits for
/// the end of the daemon.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Connections {
    open: Vec<Connection>,
    number: u64,
    /// See [`Reply::Present`].
    instance: Arc<str>,
}

/// A connection, by a number that no other one gets.
pub(super) struct Connection {
    number: u64,
    instance: Arc<str>,
    stream: UnixStream,
    /// The process that connected; `None` if the kernel does not report the process.
    peer: Option<UCred>,
    stage: ExchangePhase,
    active: Instant,
    input: Vec<u8>,
    /// Whether the client has closed its side of the connection.
    ended: bool,
    output: Vec<u8>,
    then: Continuation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExchangePhase {
    Reading,
    Waiting,
    /// The client waits for the report of the daemon's end.
    AwaitingEnd,
    Writing,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Continuation {
    GoOn,
    Close,
}

pub(super) struct ControlRequest {
    pub(super) number: u64,
    pub(super) request: Request,
    pub(super) peer: Option<UCred>,
}

pub(super) struct Watch<'a> {
    pub(super) number: u64,
    pub(super) fd: BorrowedFd<'a>,
    pub(super) flags: PollFlags,
}

impl Connections {
    pub(super) fn of(instance: &str) -> Connections {
        Connections { open: Vec::new(), number: 0, instance: instance.into() }
    }

    /// Adds a connection; returns its first request for a worker, if that has arrived.
    pub(super) fn insert(&mut self, stream: UnixStream, now: Instant) -> Option<ControlRequest> {
        stream.set_nonblocking(true).ok()?;
        if self.open.len() >= CONNECTION_COUNT_MAX {
            self.close_longest_idle();
        }
        self.number += 1;
        self.open.push(Connection {
            number: self.number,
            instance: Arc::clone(&self.instance),
            peer: socket_peercred(&stream).ok(),
            stream,
            stage: ExchangePhase::Reading,
            active: now,
            input: Vec::new(),
            ended: false,
            output: Vec::new(),
            then: Continuation::GoOn,
        });
        self.open.last_mut().and_then(|connection| connection.receive(now))
    }

    /// Closes the connection that was silent for longest, except connections with a running request. A
    /// connection that waits for the daemon's end is closed only if no other one can be.
    pub(super) fn close_longest_idle(&mut self) {
        let idle =
            self.open.iter().enumerate().filter(|(_, connection)| connection.stage != ExchangePhase::Waiting);
        let order =
            |connection: &Connection| (connection.stage == ExchangePhase::AwaitingEnd, connection.active);
        if let Some((index, _)) = idle.min_by_key(|(_, connection)| order(connection)) {
            self.open.swap_remove(index);
        }
    }

    pub(super) fn watches(&self) -> impl Iterator<Item = Watch<'_>> {
        self.open.iter().filter_map(|connection| {
            let flags = match connection.stage {
                ExchangePhase::Reading => PollFlags::IN,
                ExchangePhase::Writing => PollFlags::OUT,
                // No event is requested, since a disconnect is always reported.
                ExchangePhase::AwaitingEnd => PollFlags::empty(),
                ExchangePhase::Waiting | ExchangePhase::Closed => return None,
            };
            Some(Watch { number: connection.number, fd: connection.stream.as_fd(), flags })
        })
    }

    /// Handles an event of a watched connection; returns a request for a worker, if there is one.
    pub(super) fn handle_ready(&mut self, number: u64, now: Instant) -> Option<ControlRequest> {
        let connection = self.find(number)?;
        match connection.stage {
            ExchangePhase::Reading => connection.receive(now),
            ExchangePhase::Writing => connection.send(now),
            ExchangePhase::AwaitingEnd => {
                connection.stage = ExchangePhase::Closed;
                None
            }
            ExchangePhase::Waiting | ExchangePhase::Closed => None,
        }
    }

    pub(super) fn tell_end(&mut self, reply: &Reply, now: Instant) {
        for connection in &mut self.open {
            if connection.stage == ExchangePhase::AwaitingEnd {
                connection.reply(reply, Continuation::Close, now);
            }
        }
    }

    /// Sends a reply; may return the next request of the connection.
    pub(super) fn handle_reply(
        &mut self,
        number: u64,
        reply: &Reply,
        now: Instant,
    ) -> Option<ControlRequest> {
        self.find(number)?.reply(reply, Continuation::GoOn, now)
    }

    /// Removes a connection and returns its socket.
    pub(super) fn take(&mut self, number: u64) -> Option<UnixStream> {
        let index = self.open.iter().position(|connection| connection.number == number)?;
        Some(self.open.swap_remove(index).stream)
    }

    /// Drops connections that are closed, or silent for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.open.retain(|connection| match connection.stage {
            ExchangePhase::Reading | ExchangePhase::Writing => {
                now.duration_since(connection.active) < IDLE_MAX
            }
            ExchangePhase::Waiting | ExchangePhase::AwaitingEnd => true,
            ExchangePhase::Closed => false,
        });
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let is_timed = |stage| !matches!(stage, ExchangePhase::Waiting | ExchangePhase::AwaitingEnd);
        let timed = self.open.iter().filter(|connection| is_timed(connection.stage));
        timed.map(|connection| connection.active + IDLE_MAX).min()
    }

    pub(super) fn owes(&self) -> bool {
        self.open
            .iter()
            .any(|connection| matches!(connection.stage, ExchangePhase::Waiting | ExchangePhase::Writing))
    }

    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        self.open.iter_mut().find(|connection| connection.number == number)
    }
}

impl Connection {
    fn receive(&mut self, now: Instant) -> Option<ControlRequest> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                self.active = now;
                self.input.extend_from_slice(&bytes[..count]);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => {
                self.stage = ExchangePhase::Closed;
                return None;
            }
        }
        self.next_request(now)
    }

    /// Takes a request off the front of the received bytes, and returns it if it is for a worker.
    fn next_request(&mut self, now: Instant) -> Option<ControlRequest> {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        let too_long = u64::try_from(self.input.len()).is_ok_and(|length| length >= REQUEST_LINE_MAX);
        if end.is_none() && !too_long && !self.ended {
            self.stage = ExchangePhase::Reading;
            return None;
        }
        let line: Vec<u8> = self.input.drain(..end.map_or(self.input.len(), |end| end + 1)).collect();
        match read_line::<Request>(&mut line.as_slice(), REQUEST_LINE_MAX) {
            Ok(Some(Request::AwaitEnd {})) => {
                self.stage = ExchangePhase::AwaitingEnd;
                None
            }
            Ok(Some(Request::Ping {})) => {
                let instance = self.instance.to_string();
                self.reply(&Reply::Present { instance }, Continuation::GoOn, now)
            }
            Ok(Some(request)) => {
                self.stage = ExchangePhase::Waiting;
                Some(ControlRequest { number: self.number, request, peer: self.peer })
            }
            Ok(None) => {
                self.stage = ExchangePhase::Closed;
                None
            }
            Err(error) => {
                let message = format!("this is not a request: {error}");
                self.reply(&Reply::Error { message }, Continuation::Close, now)
            }
        }
    }

    fn reply(&mut self, reply: &Reply, then: Continuation, now: Instant) -> Option<ControlRequest> {
        self.then = then;
        self.output.clear();
        if write_line(&mut self.output, reply).is_err() {
            self.stage = ExchangePhase::Closed;
            return None;
        }
        self.send(now)
    }

    fn send(&mut self, now: Instant) -> Option<ControlRequest> {
        self.stage = ExchangePhase::Writing;
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) if count > 0 => {
                    self.active = now;
                    self.output.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.stage = ExchangePhase::Closed;
                    return None;
                }
            }
        }
        match self.then {
            Continuation::GoOn => self.next_request(now),
            Continuation::Close => {
                self.stage = ExchangePhase::Closed;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn client(connections: &mut Connections, request: Option<&Request>, now: Instant) -> UnixStream {
        let (mut client, daemon) = UnixStream::pair().unwrap();
        request.iter().for_each(|request| write_line(&mut client, request).unwrap());
        assert!(connections.insert(daemon, now).is_none());
        client
    }

    #[test]
    fn a_client_that_awaits_the_end_is_closed_last() {
        let (mut connections, begun) = (Connections::of("a"), Instant::now());
        let at = |second| begun + Duration::from_secs(second);
        let awaiting = client(&mut connections, Some(&Request::AwaitEnd {}), at(0));
        let idle = [1, 2].map(|second| client(&mut connections, None, at(second)));
        connections.close_longest_idle();
        assert_eq!((&idle[0]).read(&mut [0]).unwrap(), 0, "it is closed");
        connections.tell_end(&Reply::Done, at(3));
        let mut line = String::new();
        BufReader::new(&awaiting).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the end is reported");
    }

    #[test]
    fn clients_that_await_the_end_are_bounded_in_number() {
        let (mut connections, now) = (Connections::of("a"), Instant::now());
        let _clients: Vec<UnixStream> = (0..=CONNECTION_COUNT_MAX)
            .map(|_| client(&mut connections, Some(&Request::AwaitEnd {}), now))
            .collect();
        assert_eq!(connections.open.len(), CONNECTION_COUNT_MAX);
    }
}
