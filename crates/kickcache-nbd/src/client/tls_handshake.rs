//! From a socket to TLS over it.

use kickcache_tls::client::ClientTls;

use super::error::ClientError;
use super::timed_stream::TimedStream;
use super::tls::{Tls, encrypted, failed};

const RECEIVE: usize = 16 << 10;

/// Performs the TLS handshake with a server and verifies the server's identity.
pub(super) fn agree_on_keys(stream: &TimedStream<'_>, tls: &ClientTls) -> Result<Tls, ClientError> {
    let mut connection = tls.connect().map_err(failed)?;
    let mut bytes = vec![0; RECEIVE];
    loop {
        stream.send_all(&encrypted(&mut connection)?)?;
        if !connection.is_handshaking() {
            return Ok(Tls::new(connection));
        }
        let count = stream.receive_some(&mut bytes)?;
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            connection.read_tls(&mut rest)?;
            if let Err(error) = connection.process_new_packets() {
                // With the alert, the server can log the failure, too.
                let _ = stream.send_all(&encrypted(&mut connection)?);
                return Err(failed(error).into());
            }
        }
    }
}
