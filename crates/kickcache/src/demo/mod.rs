//! The demo: what a cache is worth, shown on a simulated slow disk.

use std::io::Write;

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Who makes the load.
    pub load: Load,
    /// Whether the result is JSON.
    pub json: bool,
}

/// Who makes the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// The demo itself.
    BuiltIn,
    /// fio, over its NBD engine.
    Fio,
}

/// Runs the demo and prints its result to `out`.
///
/// # Errors
/// When a file or a socket cannot be made.
pub fn run(options: &Options, out: &mut dyn Write) -> anyhow::Result<()> {
    let _ = (options, out);
    anyhow::bail!("the demo is not part of this build")
}
