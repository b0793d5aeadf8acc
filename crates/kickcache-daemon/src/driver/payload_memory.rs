//! A daemon's memory for payload.

use std::sync::Arc;

use crate::driver::common_memory::CommonMemory;

/// Bytes of the largest request in whole pages, at any offset in its first page.
const LARGEST: usize = (32 << 20) + 4096;

/// A daemon's memory for payload.
///
/// Half of this memory is common, or if two of the largest requests need more, as much as they need, up to three quarters;
/// the rest is divided between the volumes.
#[derive(Clone, Debug)]
pub struct PayloadMemory {
    limit: usize,
    volumes: usize,
    pub(crate) common: Arc<CommonMemory>,
}

impl PayloadMemory {
    pub fn new(limit: usize, volumes: usize) -> PayloadMemory {
        let common = (limit / 2).max((2 * LARGEST).min(limit / 4 * 3));
        PayloadMemory { limit, volumes, common: Arc::new(CommonMemory::new(common)) }
    }

    /// Bytes that belong to an event loop with `volumes` volumes.
    pub(crate) fn part(&self, volumes: usize) -> usize {
        let divided = self.limit - self.common.limit();
        divided / self.volumes.max(volumes).max(1) * volumes
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.volumes > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_largest_request_fits_and_every_volume_has_a_part() {
        for (limit, common) in [(256 * MIB, 128 * MIB), (64 * MIB, 48 * MIB), (96 * MIB, 2 * LARGEST)] {
            let memory = PayloadMemory::new(limit, 4);
            assert_eq!((memory.common.limit(), memory.part(4)), (common, limit - common));
            assert_eq!(memory.part(1) * 4, memory.part(4));
        }
    }
}
