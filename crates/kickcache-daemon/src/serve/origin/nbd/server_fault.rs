//! Why the server of a remote origin cannot be used.

use kickcache_nbd::client::ClientError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ServerFault {
    /// The server does not answer, or not completely.
    Away(String),
    /// The server answered with an error, or is not the lost one.
    Wrong(String),
}

impl ServerFault {
    pub(super) fn why(&self) -> &str {
        let (ServerFault::Away(why) | ServerFault::Wrong(why)) = self;
        why
    }
}

impl From<&ClientError> for ServerFault {
    fn from(error: &ClientError) -> ServerFault {
        match error {
            ClientError::Io(_) => ServerFault::Away(cause(error)),
            _ => ServerFault::Wrong(cause(error)),
        }
    }
}

/// The error in words; of an I/O error, the text of the system alone.
pub(super) fn cause(error: &ClientError) -> String {
    match error {
        ClientError::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
