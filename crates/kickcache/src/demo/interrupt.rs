//! Ctrl-C, or a terminal that is closed: the demo stops in order and removes its files.
//!
//! A second signal changes nothing: some senders (`timeout`) send each twice, and files would be left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Notes SIGHUP, SIGINT and SIGTERM while it lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    registrations: Vec<SigId>,
}

impl Interrupt {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen() -> anyhow::Result<Interrupt> {
        let raised = Arc::new(AtomicBool::new(false));
        let mut registrations = Vec::new();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            registrations.push(signal_hook::flag::register(signal, Arc::clone(&raised))?);
        }
        Ok(Interrupt { raised, registrations })
    }

    /// Fails once a signal came.
    ///
    /// # Errors
    /// A sentence that says so.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.raised.load(Ordering::Relaxed) {
            anyhow::bail!("the demo was interrupted; its files are removed");
        }
        Ok(())
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for &id in &self.registrations {
            signal_hook::low_level::unregister(id);
        }
    }
}
