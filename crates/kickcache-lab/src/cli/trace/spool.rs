//! Standard input as a file that can be read more than once.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::Context;

/// Standard input in a file without a name, so that it never stays behind. Its path is valid as long as `spool` lives.
pub(crate) fn spool_input(spool: &mut Vec<File>) -> anyhow::Result<PathBuf> {
    let mut file = tempfile::tempfile().context("no temporary file can be made for standard input")?;
    std::io::copy(&mut std::io::stdin(), &mut file).context("standard input cannot be read")?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    spool.push(file);
    Ok(path.into())
}
