//! Why the server of a remote origin cannot be used.

use kickcache_nbd::client::ClientError;

/// A server that is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unusable {
    /// The server does not answer, or not completely.
    Away(String),
    /// The server was checked, and is not the lost one.
    Wrong(String),
}

impl Unusable {
    /// In words.
    pub(super) fn why(&self) -> &str {
        let (Unusable::Away(why) | Unusable::Wrong(why)) = self;
        why
    }
}

impl From<&ClientError> for Unusable {
    fn from(error: &ClientError) -> Unusable {
        match error {
            ClientError::Io(_) => Unusable::Away(cause(error)),
            _ => Unusable::Wrong(cause(error)),
        }
    }
}

/// The error, without the prefix that every error of a client has.
pub(super) fn cause(error: &ClientError) -> String {
    match error {
        ClientError::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
