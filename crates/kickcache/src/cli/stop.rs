//! `kickcache stop`: ends a daemon cleanly.

use std::io::Write;
use std::time::Duration;

use kickcache_daemon::control::client::ClientError;

use crate::cli::exit::Failure;
use crate::cli::options::ControlOption;

const EXAMPLES: &str = "\
Examples:
  kickcache stop                        come back when everything acknowledged is durable
  kickcache stop --no-wait

Dirty blocks stay dirty on the cache device; drain first to detach an origin.";

/// How often the daemon is asked whether it is still there.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Stop a daemon cleanly
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StopArgs {
    /// Come back at once
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl StopArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        client.stop()?;
        if self.no_wait {
            return Ok(writeln!(out, "stopping")?);
        }
        loop {
            match client.status() {
                Err(ClientError::NoDaemon(_)) => return Ok(writeln!(out, "stopped")?),
                // A daemon on its way out may refuse to answer, or close the connection.
                Ok(_) | Err(ClientError::Refused(_) | ClientError::Io { .. }) => {
                    std::thread::sleep(ASK_EVERY);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
