//! Commands that may wait for long or for the loop, sent from threads of their own.

use std::sync::Arc;
use std::thread;

use super::control_device::ControlDevice;

#[derive(Clone)]
pub(crate) struct ControlThreads {
    open: Arc<dyn Fn() -> Result<ControlDevice, String> + Send + Sync>,
}

impl Default for ControlThreads {
    fn default() -> ControlThreads {
        ControlThreads::new(ControlDevice::open)
    }
}

impl ControlThreads {
    pub(crate) fn new(
        open: impl Fn() -> Result<ControlDevice, String> + Send + Sync + 'static,
    ) -> ControlThreads {
        ControlThreads { open: Arc::new(open) }
    }

    /// Opens the driver, for commands that do not wait for this process.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn open(&self) -> Result<ControlDevice, String> {
        (self.open)()
    }

    /// Runs a command on another thread, and passes its result to `tell`.
    pub(super) fn aside<T>(
        &self,
        work: impl FnOnce(&mut ControlDevice) -> std::io::Result<T> + Send + 'static,
        tell: impl FnOnce(Result<T, String>) + Send + 'static,
    ) {
        let open = Arc::clone(&self.open);
        let run = move || {
            let done = open().and_then(|mut control| work(&mut control).map_err(|error| error.to_string()));
            tell(done);
        };
        if let Err(error) = thread::Builder::new().name("ublk-control".into()).spawn(run) {
            tracing::error!(
                event = "ublk_failed",
                "no thread for a command to the kernel's ublk driver: {error}"
            );
        }
    }
}
