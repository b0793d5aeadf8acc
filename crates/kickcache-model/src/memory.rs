//! A check that memory suffices for a simulation, made before the memory is allocated.

use kickcache_engine::units::BLOCK_SIZE;

/// The most bytes that the engine needs for each block of its cache device.
const ENGINE_BYTES: u64 = 20;

/// Refuses tables if the system does not reserve memory for them. An allocation may still fail if other programs take
/// the memory meanwhile.
///
/// # Errors
/// A sentence with the needed size.
pub fn check(bytes: u64) -> Result<(), String> {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut room = Vec::<u8>::new();
    let is_there = room.try_reserve_exact(length);
    // Without this, a compiler may remove the unused allocation and report success.
    std::hint::black_box(&mut room);
    is_there.map_err(|_| {
        let mebibytes = bytes >> 20;
        format!("its tables would take {mebibytes} MiB of memory, more than there is; make the cache or the load smaller")
    })
}

pub fn of_engine(cache_bytes: u64) -> u64 {
    cache_bytes / BLOCK_SIZE * ENGINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_address_space_is_refused() {
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(1 << 20), Ok(()));
        let sentence = check(of_engine(u64::MAX)).unwrap_err();
        assert!(sentence.contains("85899345919 MiB of memory"), "{sentence}");
    }
}
