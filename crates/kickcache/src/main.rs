//! The `kickcache` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kickcache::cli::main()
}
