//! The NBD server: a thread a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use kickcache_engine::units::ByteExtent;
use kickcache_nbd::{
    Command, CommandKind, Decoded, DecodedPrefix, ExportInfo, NbdErrno, ReplyHead, Session, StatusExtent,
};

use crate::fault::{Effect, Operation};
use crate::state::State;

const RECEIVE_BYTES: usize = 256 << 10;

const HANG_PAUSE: Duration = Duration::from_millis(20);

type Shared = Arc<Mutex<State>>;

/// Serves the disks.
pub(crate) fn serve(socket: &Path, control: &Path, state: State) -> anyhow::Result<()> {
    let exports: Arc<[ExportInfo]> = state
        .disks
        .iter()
        .enumerate()
        .map(|(index, disk)| ExportInfo {
            name: disk.name.clone(),
            is_default: index == 0,
            description: "a disk that fails on demand".into(),
            size: disk.size,
            read_only: false,
            rotational: false,
        })
        .collect();
    let state = Arc::new(Mutex::new(state));
    let listen = |path: &Path| {
        UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))
    };
    let (clients, controls) = (listen(socket)?, listen(control)?);
    let shared = Arc::clone(&state);
    thread::spawn(move || {
        for stream in controls.incoming().map_while(Result::ok) {
            // A client that disconnected needs no answer.
            let _ = answer(&shared, &stream);
        }
    });
    for stream in clients.incoming() {
        let (stream, state, exports) = (stream?, Arc::clone(&state), Arc::clone(&exports));
        thread::spawn(move || {
            if let Err(error) = (Connection { stream, state, session: Session::new(exports) }).run() {
                eprintln!("faultdisk: a connection ended: {error:#}");
            }
        });
    }
    Ok(())
}

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(state: &Shared, stream: &UnixStream) -> anyhow::Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer = lock(state).command(line.trim()).unwrap_or_else(|error| format!("error: {error:#}"));
    let mut stream = stream;
    Ok(writeln!(stream, "{answer}")?)
}

struct Connection {
    stream: UnixStream,
    state: Shared,
    session: Session,
}

enum Answer {
    Done,
    Data(Vec<u8>),
    Error(NbdErrno),
}

impl Connection {
    fn run(&mut self) -> anyhow::Result<()> {
        let mut input = Vec::new();
        let mut piece = vec![0; RECEIVE_BYTES];
        self.send_output()?;
        loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            input.extend_from_slice(&piece[..count]);
            while let Some(command) = self.next_command(&mut input)? {
                let data = match command.kind {
                    CommandKind::Write { .. } => self.payload(&mut input, command.length)?,
                    _ => Vec::new(),
                };
                self.carry_out(&command, data)?;
            }
        }
    }

    /// `None` if more bytes are needed.
    fn next_command(&mut self, input: &mut Vec<u8>) -> anyhow::Result<Option<Command>> {
        loop {
            let DecodedPrefix { consumed, meaning: decoded } = self.session.decode(input);
            input.drain(..consumed);
            self.send_output()?;
            match decoded {
                Decoded::NeedMore => return Ok(None),
                Decoded::Command(command) => return Ok(Some(command)),
                Decoded::SkipPayload(length) => drop(self.payload(input, length)?),
                Decoded::StartTls => bail!("it has no TLS"),
                Decoded::Close(reason) => bail!("{reason}"),
            }
        }
    }

    /// Takes bytes from the stream, beginning with those already received.
    fn payload(&mut self, input: &mut Vec<u8>, length: u64) -> anyhow::Result<Vec<u8>> {
        let length = usize::try_from(length)?;
        let received = length.min(input.len());
        let mut data: Vec<u8> = input.drain(..received).collect();
        data.resize(length, 0);
        self.stream.read_exact(&mut data[received..])?;
        Ok(data)
    }

    fn send_output(&mut self) -> anyhow::Result<()> {
        let mut output = Vec::new();
        self.session.take_output(&mut output);
        Ok(self.stream.write_all(&output)?)
    }

    fn carry_out(&mut self, command: &Command, data: Vec<u8>) -> anyhow::Result<()> {
        let operation = match command.kind {
            CommandKind::Read { .. } => Some(Operation::Read),
            CommandKind::Write { .. } | CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => {
                Some(Operation::Write)
            }
            CommandKind::Flush => Some(Operation::Flush),
            CommandKind::Cache | CommandKind::BlockStatus { .. } => None,
        };
        let place = ByteExtent { start: command.offset, length: command.length };
        // Before the effect: a clearing between both ends the hang.
        let clearings = lock(&self.state).clearings;
        let effect =
            operation.and_then(|operation| lock(&self.state).effect(command.export, operation, place));
        let answer = match effect {
            Some(Effect::Eio) => Answer::Error(NbdErrno::Io),
            Some(Effect::NoSpace) => Answer::Error(NbdErrno::NoSpace),
            Some(Effect::Gone) => bail!("the disk is disconnected"),
            Some(Effect::Hang) => {
                self.hang(clearings);
                self.perform(command, data)?
            }
            Some(Effect::Lie) if operation == Some(Operation::Flush) => {
                lock(&self.state).lie(command.export)?;
                Answer::Done
            }
            Some(Effect::Lie) if operation == Some(Operation::Write) => Answer::Done,
            Some(Effect::Delay(time)) => {
                thread::sleep(time);
                self.perform(command, data)?
            }
            Some(Effect::Rot) => rotten(self.perform(command, data)?),
            Some(Effect::Lie) | None => self.perform(command, data)?,
        };
        self.reply(command, answer)
    }

    /// Waits until the faults are cleared again, after this number of clearings.
    fn hang(&self, clearings: u64) {
        while lock(&self.state).clearings == clearings {
            thread::sleep(HANG_PAUSE);
        }
    }

    fn perform(&mut self, command: &Command, data: Vec<u8>) -> anyhow::Result<Answer> {
        let Command { offset, length, export: disk, .. } = *command;
        let mut state = lock(&self.state);
        let fua = match command.kind {
            CommandKind::Read { .. } => {
                let mut data = vec![0; usize::try_from(length)?];
                state.read(disk, offset, &mut data)?;
                return Ok(Answer::Data(data));
            }
            CommandKind::Write { fua } => {
                state.write(disk, offset, data)?;
                fua
            }
            CommandKind::Trim { fua } | CommandKind::WriteZeroes { fua, .. } => {
                state.zero(disk, offset, length)?;
                fua
            }
            CommandKind::Flush => true,
            CommandKind::Cache | CommandKind::BlockStatus { .. } => false,
        };
        if fua {
            state.flush(disk)?;
        }
        Ok(Answer::Done)
    }

    fn reply(&mut self, command: &Command, answer: Answer) -> anyhow::Result<()> {
        let mut head = ReplyHead::new();
        let mut bytes = Vec::new();
        match answer {
            Answer::Error(errno) => self.session.encode_error(command, errno, &mut bytes),
            Answer::Data(data) => {
                self.session.encode_read_header(command, &mut head);
                bytes = data;
            }
            Answer::Done => match command.kind {
                CommandKind::BlockStatus { .. } => {
                    let data = StatusExtent { length: command.length, hole: false, zero: false };
                    self.session.encode_block_status(command, &[data], &mut bytes);
                }
                _ => self.session.encode_done(command, &mut head),
            },
        }
        self.stream.write_all(head.as_slice())?;
        Ok(self.stream.write_all(&bytes)?)
    }
}

fn rotten(answer: Answer) -> Answer {
    match answer {
        Answer::Data(mut data) => {
            if let Some(byte) = data.first_mut() {
                *byte ^= 1;
            }
            Answer::Data(data)
        }
        answer @ (Answer::Done | Answer::Error(_)) => answer,
    }
}
