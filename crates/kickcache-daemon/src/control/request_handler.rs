//! The daemon behind a control socket: it carries out requests.

use std::sync::Arc;

use crate::control::wire::{RecordingTitle, Reply, Request};
use crate::recording::ring::Recording;

pub trait RequestHandler: Send + Sync + 'static {
    /// Carries out a request. The socket itself answers `AwaitEnd` and `Ping`.
    ///
    /// # Errors
    /// [`ControlError`].
    fn handle(&self, request: &Request) -> Result<Answer, ControlError>;
}

/// The result of a request.
pub enum Answer {
    Reply(Reply),
    /// A line, followed by a recording, which then has the connection for itself.
    Feed(RecordingTitle, Recording),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}

/// Why a command has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    /// No volume has the name.
    #[error("there is no volume `{name}` here; there is {}", known.join(", "))]
    NoVolume { name: String, known: Vec<String> },
    #[error("the daemon is stopping")]
    Stopped,
    /// The request, or the configuration file, is wrong in itself.
    #[error("{0}")]
    Wrong(String),
    /// The operation is still running, in a sentence.
    #[error("{0}")]
    Running(String),
    /// Other reasons, in a sentence.
    #[error("{0}")]
    Refused(String),
}

impl From<ControlError> for Reply {
    fn from(error: ControlError) -> Reply {
        match error {
            ControlError::Wrong(message) => Reply::Wrong { message },
            ControlError::Running(message) => Reply::Running { message },
            ControlError::NoVolume { .. } | ControlError::Stopped | ControlError::Refused(_) => {
                Reply::Error { message: error.to_string() }
            }
        }
    }
}

/// A daemon that only reports its status, for a socket that other users than the daemon's may use.
pub(super) struct StatusOnly(pub(super) Arc<dyn RequestHandler>);

impl RequestHandler for StatusOnly {
    fn handle(&self, request: &Request) -> Result<Answer, ControlError> {
        match request {
            Request::Status {} => self.0.handle(request),
            _ => {
                let refusal = "the status socket permits no changes; use the control socket";
                Err(ControlError::Refused(refusal.into()))
            }
        }
    }
}
