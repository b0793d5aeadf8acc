//! A file of random bytes that is created for a bench and removed when it is dropped.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kickcache_command::interrupt::Interrupt;
use kickcache_random::Random;

use crate::bench::bench_lock::BenchLocks;
use crate::bench::job::Access;

const PIECE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct ScratchFile(PathBuf);

impl ScratchFile {
    /// Makes the file and fills it; the path must not exist yet.
    ///
    /// # Errors
    /// If it cannot be made or filled, another bench has locked it, or the bench is interrupted.
    pub(super) fn make(
        path: &Path,
        bytes: u64,
        holds: &BenchLocks,
        interrupt: &Interrupt,
    ) -> anyhow::Result<ScratchFile> {
        let failed = || format!("{} cannot be made", path.display());
        let mut file = File::create_new(path).with_context(failed)?;
        let own = ScratchFile(path.into());
        holds.keep(path, Access::Writes)?;
        let mut random = Random::new(bytes);
        let mut piece = vec![0; PIECE];
        let mut left = bytes;
        while left > 0 {
            interrupt.check()?;
            piece.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
            let part = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            file.write_all(&piece[..part]).with_context(failed)?;
            left -= part as u64;
        }
        // The sync may take long; a signal ends the wait for it.
        interrupt.wait_for(move || Ok(file.sync_all()?)).with_context(failed)?;
        Ok(own)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // Another program may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}
