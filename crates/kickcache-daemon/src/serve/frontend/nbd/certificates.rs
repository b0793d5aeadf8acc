//! A server's certificates, which follow their files. A thread of its own checks the files, so an
//! unresponsive disk blocks no client.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use kickcache_tls::rustls::ServerConfig;
use kickcache_tls::rustls::server::UnbufferedServerConnection;
use kickcache_tls::server::{Refreshed, ServerCertificates};

/// Time between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

struct Current {
    config: Arc<ServerConfig>,
    failure: Option<String>,
}

pub(crate) struct Certificates {
    current: Arc<Mutex<Current>>,
    /// The drop of this sender ends the thread, and does not wait for the end.
    _ending: Sender<()>,
}

impl Certificates {
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn follow(certificates: ServerCertificates) -> io::Result<Certificates> {
        let current = Arc::new(Mutex::new(Current { config: certificates.config(), failure: None }));
        let (ending, ended) = mpsc::channel();
        let followed = Arc::clone(&current);
        let follow = move || follow(certificates, &followed, &ended);
        thread::Builder::new().name("certificates".into()).spawn(follow)?;
        Ok(Certificates { current, _ending: ending })
    }

    pub(super) fn accept(&self) -> Option<UnbufferedServerConnection> {
        let config = Arc::clone(&lock(&self.current).config);
        UnbufferedServerConnection::new(config).ok()
    }

    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.current).failure.clone()
    }
}

fn follow(mut certificates: ServerCertificates, current: &Mutex<Current>, ended: &Receiver<()>) {
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        match certificates.refresh() {
            Refreshed::Unchanged => {}
            Refreshed::Renewed => {
                *lock(current) = Current { config: certificates.config(), failure: None };
                tracing::info!(
                    event = "tls_renewed",
                    "new certificates are in use for clients that connect from now on"
                );
            }
            Refreshed::Failed(error) => {
                let text = format!(
                    "new certificates cannot be used, clients that connect get those before them: {error}"
                );
                tracing::error!(event = "tls_not_renewed", "{text}");
                lock(current).failure = Some(text);
            }
        }
    }
}

fn lock(current: &Mutex<Current>) -> MutexGuard<'_, Current> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}
