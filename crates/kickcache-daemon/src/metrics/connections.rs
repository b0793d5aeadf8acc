//! Connections of scrapers, all handled by one thread without waiting for any client.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::metrics::http::{Body, ConnectionFate, Parsed, Request, Response, parse};

/// The most connections at a time.
pub(super) const CONNECTION_COUNT_MAX: usize = 32;
/// How long a connection may wait for its next request.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(180);
/// The longest time for receiving a request, and for sending a response.
pub(super) const TRANSFER_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Connections {
    open: Vec<Connection>,
}

struct Connection {
    socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    after: ConnectionFate,
    active: Instant,
    deadline: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Open,
    Over,
}

impl Connections {
    pub(super) fn insert(&mut self, socket: OwnedFd, now: Instant) {
        if self.open.len() >= CONNECTION_COUNT_MAX {
            self.close_longest_silent();
        }
        self.open.push(Connection {
            socket,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            after: ConnectionFate::GoOn,
            active: now,
            deadline: now + TRANSFER_MAX,
        });
    }

    pub(super) fn close_longest_silent(&mut self) {
        let silent = self.open.iter().enumerate().min_by_key(|(_, connection)| connection.active);
        if let Some((index, _)) = silent {
            self.open.swap_remove(index);
        }
    }

    /// The watched descriptors, in the order that [`Connections::handle`] expects.
    pub(super) fn watches(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.open.iter().map(|connection| {
            let flags = if connection.output.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            (connection.socket.as_fd(), flags)
        })
    }

    pub(super) fn handle(
        &mut self,
        now: Instant,
        ready: &[bool],
        answer: &mut dyn FnMut(&Request) -> Vec<u8>,
    ) {
        let mut ready = ready.iter().copied();
        self.open.retain_mut(|connection| {
            let is_ready = ready.next().unwrap_or(false);
            let life = if is_ready { connection.go_on(now, answer) } else { Life::Open };
            life == Life::Open && now < connection.deadline
        });
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|connection| connection.deadline).min()
    }
}

impl Connection {
    fn go_on(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Vec<u8>) -> Life {
        self.active = now;
        if self.output.is_empty() { self.receive(now, answer) } else { self.send(now, answer) }
    }

    fn receive(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Vec<u8>) -> Life {
        let mut bytes = [0; 4096];
        match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Life::Over,
            Ok((count, _)) => {
                if self.input.is_empty() {
                    self.deadline = now + TRANSFER_MAX;
                }
                self.input.extend_from_slice(&bytes[..count]);
            }
            Err(Errno::AGAIN | Errno::INTR) => return Life::Open,
            Err(_) => return Life::Over,
        }
        self.begin_response(now, answer)
    }

    /// Answers the request at the front of the received bytes, if it is whole.
    fn begin_response(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Vec<u8>) -> Life {
        match parse(&self.input) {
            Parsed::Partial => return Life::Open,
            Parsed::Complete { request, length } => {
                self.input.drain(..length);
                self.output = answer(&request);
                self.after = request.after;
            }
            Parsed::Bad(status) => {
                let text = "This is not a request for metrics: GET /metrics\n";
                let (body, after) = (Body::Sent, ConnectionFate::Close);
                self.output =
                    Response { status, content_type: "text/plain", policy: None, text, body, after }.bytes();
                self.after = ConnectionFate::Close;
            }
        }
        self.sent = 0;
        self.deadline = now + TRANSFER_MAX;
        self.send(now, answer)
    }

    fn send(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Vec<u8>) -> Life {
        while self.sent < self.output.len() {
            match send(&self.socket, &self.output[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Life::Open,
                Err(_) => return Life::Over,
            }
        }
        self.output = Vec::new();
        match self.after {
            ConnectionFate::Close => Life::Over,
            ConnectionFate::GoOn if self.input.is_empty() => {
                self.deadline = now + IDLE_MAX;
                Life::Open
            }
            ConnectionFate::GoOn => self.begin_response(now, answer),
        }
    }
}
