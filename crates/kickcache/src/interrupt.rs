//! Ctrl-C, or a terminal that is closed: a measurement stops in order and cleans up.
//!
//! A second signal changes nothing: some senders (`timeout`) send each twice, and files would be left behind.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Notes SIGHUP, SIGINT and SIGTERM while it lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    registrations: Vec<SigId>,
    /// What is said of it.
    sentence: &'static str,
}

/// A signal came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupted(&'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen(sentence: &'static str) -> anyhow::Result<Interrupt> {
        let raised = Arc::new(AtomicBool::new(false));
        let mut registrations = Vec::new();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            registrations.push(signal_hook::flag::register(signal, Arc::clone(&raised))?);
        }
        Ok(Interrupt { raised, registrations, sentence })
    }

    /// Fails once a signal came.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.raised.load(Ordering::Relaxed) {
            return Err(Interrupted(self.sentence).into());
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
