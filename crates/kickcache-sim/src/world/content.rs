//! The bytes that clients write: every 32 bytes say which write they come from and where they belong.

use kickcache_engine::units::VolumeId;

/// Bytes that carry one stamp; client extents are multiples of it.
pub const UNIT: usize = 32;
/// The same for offsets.
pub const UNIT_SIZE: u64 = 32;

/// Names a write; zeroes are version 0.
pub type Version = u64;

/// The version that all-zero bytes stand for.
pub const ZERO: Version = 0;

fn place(volume: VolumeId, unit: u64) -> u64 {
    (u64::from(volume.get()) + 1) << 56 | unit
}

fn seal(version: Version, place: u64) -> u64 {
    let mixed = (version ^ place.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 31)
}

/// Fills bytes that start at `offset` of the volume with the stamps of a version.
pub fn stamp(volume: VolumeId, version: Version, offset: u64, bytes: &mut [u8]) {
    for (unit, chunk) in (offset / UNIT_SIZE..).zip(bytes.chunks_exact_mut(UNIT)) {
        let place = place(volume, unit);
        let words = [version, place, seal(version, place), !version];
        for (word, slot) in words.into_iter().zip(chunk.chunks_exact_mut(8)) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The version that a unit carries, or a sentence that says what is wrong with its bytes.
pub fn version_of(volume: VolumeId, unit: u64, bytes: &[u8]) -> Result<Version, String> {
    let word = |index: usize| {
        let chunk = bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(chunk)
    };
    let words = [word(0), word(1), word(2), word(3)];
    if words == [0; 4] {
        return Ok(ZERO);
    }
    let (version, found) = (words[0], words[1]);
    if words[2] != seal(version, found) || words[3] != !version {
        return Err(format!("bytes that nobody wrote: {words:x?}"));
    }
    if found != place(volume, unit) {
        let (other, unit) = ((found >> 56).wrapping_sub(1), found & ((1 << 56) - 1));
        return Err(format!("data of volume {other} offset {} (version {version})", unit * UNIT_SIZE));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_name_version_and_place() {
        let volume = VolumeId::new(3);
        let mut bytes = [0; 64];
        assert_eq!(version_of(volume, 5, &bytes[..32]), Ok(ZERO));
        stamp(volume, 77, 5 * UNIT_SIZE, &mut bytes);
        assert_eq!(version_of(volume, 5, &bytes[..32]), Ok(77));
        assert_eq!(version_of(volume, 6, &bytes[32..]), Ok(77));
        assert!(version_of(volume, 5, &bytes[32..]).is_err());
        assert!(version_of(VolumeId::new(2), 5, &bytes[..32]).is_err());
        bytes[20] ^= 1;
        assert!(version_of(volume, 5, &bytes[..32]).is_err());
    }
}
