//! CRC32C of blocks.

use kickcache_engine::units::Checksum;

pub fn checksum(bytes: &[u8]) -> Checksum {
    Checksum::new(crc_fast::crc32_iscsi(bytes))
}

/// CRC32C of bytes that arrive in several stretches.
pub struct RunningChecksum(crc_fast::Digest);

impl RunningChecksum {
    pub fn new() -> RunningChecksum {
        RunningChecksum(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(&self) -> Checksum {
        let sum = u32::try_from(self.0.finalize()).expect("a CRC32C has 32 bits");
        Checksum::new(sum)
    }
}

impl Default for RunningChecksum {
    fn default() -> RunningChecksum {
        RunningChecksum::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_castagnoli() {
        assert_eq!(checksum(b"123456789").get(), 0xe306_9283);
    }

    #[test]
    fn stretches_give_the_same_as_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let mut running = RunningChecksum::new();
        running.update(&bytes[..100]);
        running.update(&bytes[100..]);
        assert_eq!(running.finish(), checksum(&bytes));
    }
}
