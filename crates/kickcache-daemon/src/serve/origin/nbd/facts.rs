//! The properties of an export that a volume needs.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_nbd::client::RemoteExport;

use crate::driver::device::AccessMode;
use crate::driver::minimum_block::MinimumBlock;
use crate::plan::origin_claims::OriginClaims;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    /// The size of the export in bytes.
    pub(super) size: u64,
    pub(super) minimum_block: MinimumBlock,
    has_flush: bool,
    access: AccessMode,
}

/// The largest minimum block of the protocol.
const MINIMUM_BLOCK_MAX: u64 = 64 << 10;

impl Facts {
    /// The properties of an export, if it can be an origin.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn of(
        export: &RemoteExport,
        access: AccessMode,
        claims: OriginClaims,
    ) -> Result<Facts, String> {
        let size = export.size;
        if size == 0 || !size.is_multiple_of(BLOCK_SIZE) {
            let wanted = size.max(1).next_multiple_of(BLOCK_SIZE);
            return Err(format!(
                "it has {size} bytes, and a volume has a multiple of 4096; extend it to {wanted} bytes at its server"
            ));
        }
        if export.is_read_only() && access == AccessMode::ReadWrite {
            return Err("its server exports it read-only; export it for writing, or use --read-only".into());
        }
        if !export.has_flush() && !claims.flushless && access == AccessMode::ReadWrite {
            return Err("it cannot be flushed, so that a power cut at its server may lose writes that \
                        were reported as durable; to accept this loss, use --origin-no-flush"
                .into());
        }
        let minimum_block = minimum_block(export)?;
        if !size.is_multiple_of(minimum_block.bytes()) {
            let (least, wanted) = (minimum_block.bytes(), size.next_multiple_of(minimum_block.bytes()));
            return Err(format!(
                "it has {size} bytes, and its server requires blocks of at least {least}, so that the \
                 last block is not whole; extend it to {wanted} bytes at its server"
            ));
        }
        Ok(Facts { size, minimum_block, has_flush: export.has_flush(), access })
    }

    /// Whether flushed writes survive a restart of the server, or nothing is written. Without flushes, a
    /// restart may lose every write.
    pub(super) fn keeps_flushed(&self) -> bool {
        self.has_flush || self.access == AccessMode::ReadOnly
    }

    /// Why the export of a returned server cannot take the place of the lost one; `None` if it can.
    pub(super) fn difference(&self, export: &RemoteExport) -> Option<String> {
        if export.size != self.size {
            let hint = match export.size > self.size {
                true => ", or, if it was extended, stop, and use --origin-grown",
                false => "",
            };
            let (found, known) = (export.size, self.size);
            return Some(format!("it has {found} bytes now, and had {known}; export the right disk{hint}"));
        }
        if export.is_read_only() && self.access == AccessMode::ReadWrite {
            return Some("its server exports it read-only now; export it for writing".into());
        }
        if self.has_flush && !export.has_flush() {
            return Some("its server cannot flush it any more; export it as before".into());
        }
        match minimum_block(export) {
            Err(what) => Some(what),
            Ok(least) if least > self.minimum_block => {
                let (found, known) = (least.bytes(), self.minimum_block.bytes());
                Some(format!(
                    "its server takes blocks of at least {found} bytes now, and took {known}; export it as before, or stop and \
                     start kickcache"
                ))
            }
            Ok(_) => None,
        }
    }
}

/// # Errors
/// A sentence.
pub(super) fn minimum_block(export: &RemoteExport) -> Result<MinimumBlock, String> {
    let Some([least, _, most]) = export.block_sizes else { return Ok(MinimumBlock::SECTOR) };
    let block = MinimumBlock::new(u64::from(least)).filter(|block| block.bytes() <= MINIMUM_BLOCK_MAX);
    let Some(block) = block else {
        return Err(format!(
            "its server takes blocks of at least {least} bytes, and the protocol allows powers of two up to {MINIMUM_BLOCK_MAX}; \
             lower its minimum, or put a filter between that splits blocks (nbdkit --filter=blocksize)"
        ));
    };
    let unit = block.bytes().max(BLOCK_SIZE);
    if u64::from(most) < unit {
        return Err(format!(
            "its server takes at most {most} bytes at once, and blocks have {unit}; raise its limit"
        ));
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(size: u64, flags: u16, least: u32) -> RemoteExport {
        RemoteExport {
            size,
            flags,
            block_sizes: Some([least, 4096, 1 << 25]),
            structured: true,
            allocation: None,
        }
    }

    #[test]
    fn flushed_writes_are_kept_only_by_servers_that_flush() {
        const FLUSH: u16 = 1 << 2;
        let keeps = |flags, access| {
            let claims = OriginClaims { flushless: true, ..OriginClaims::default() };
            Facts::of(&export(1 << 20, flags, 512), access, claims).unwrap().keeps_flushed()
        };
        assert!(keeps(FLUSH, AccessMode::ReadWrite) && keeps(0, AccessMode::ReadOnly));
        assert!(!keeps(0, AccessMode::ReadWrite), "a restart may lose every write");
    }

    #[test]
    fn unsuitable_exports_are_reported() {
        let write = |export| Facts::of(&export, AccessMode::ReadWrite, OriginClaims::default());
        let told = |export| write(export).unwrap_err();
        const FLUSH: u16 = 1 << 2;
        const READ_ONLY: u16 = 1 << 1;
        assert!(told(export(5000, FLUSH, 1)).contains("8192"));
        assert!(told(export(0, FLUSH, 1)).contains("4096"));
        assert!(told(export(8192, FLUSH | READ_ONLY, 1)).contains("--read-only"));
        assert!(told(export(8192, 0, 1)).contains("--origin-no-flush"));
        assert!(told(export(8192, FLUSH, 3000)).contains("powers of two"));
        assert!(told(export(1 << 20, FLUSH, 128 << 10)).contains("up to 65536"));
        assert!(told(export(8192, FLUSH, 16384)).contains("extend it to 16384"));
        assert!(
            told(RemoteExport { block_sizes: Some([8192, 8192, 4096]), ..export(8192, FLUSH, 1) })
                .contains("blocks have 8192")
        );
        assert_eq!(write(export(8192, FLUSH, 4096)).unwrap().minimum_block.bytes(), 4096);
        let facts = write(export(8192, FLUSH, 512)).unwrap();
        assert!(
            Facts::of(&export(8192, READ_ONLY, 1), AccessMode::ReadOnly, OriginClaims::default()).is_ok()
        );
        assert_eq!(facts.difference(&export(8192, FLUSH, 1)), None);
        assert!(facts.difference(&export(4096, FLUSH, 1)).unwrap().contains("and had 8192; export"));
        assert!(facts.difference(&export(16384, FLUSH, 1)).unwrap().contains("--origin-grown"));
        for other in [
            export(4096, FLUSH, 1),
            export(8192, FLUSH | READ_ONLY, 1),
            export(8192, 0, 1),
            export(8192, FLUSH, 4096),
            RemoteExport { block_sizes: Some([1, 512, 2048]), ..export(8192, FLUSH, 1) },
        ] {
            assert!(facts.difference(&other).is_some());
        }
    }
}
