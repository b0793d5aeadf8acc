//! Numbers in as few bytes as they need: seven bits a byte, the lowest first, the upper bit set in all but the last.

/// Bytes of the longest number.
const LENGTH_MAX: usize = 10;
const SECTOR_BYTES: i64 = 512;

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    out.push(low_bits(number));
}

pub(crate) fn put_step(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, fold(to.wrapping_sub(from).cast_signed()));
}

/// Appends a number of bytes; a whole number of sectors is counted in sectors.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: u64) {
    put(out, in_sectors(bytes.cast_signed()).cast_unsigned());
}

/// Appends the difference of two addresses; a whole number of sectors is counted in sectors.
pub(crate) fn put_way(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, fold(in_sectors(to.wrapping_sub(from).cast_signed())));
}

pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..LENGTH_MAX {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(first & 0x7f);
        let shifted = bits << (7 * index);
        if shifted >> (7 * index) != bits {
            return None;
        }
        number |= shifted;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(crate) fn take_step(bytes: &mut &[u8], from: u64) -> Option<u64> {
    Some(from.wrapping_add(unfold(take(bytes)?).cast_unsigned()))
}

pub(crate) fn take_bytes(bytes: &mut &[u8]) -> Option<u64> {
    Some(in_bytes(take(bytes)?.cast_signed()).cast_unsigned())
}

pub(crate) fn take_way(bytes: &mut &[u8], from: u64) -> Option<u64> {
    Some(from.wrapping_add(in_bytes(unfold(take(bytes)?)).cast_unsigned()))
}

/// Small numbers of either sign as small ones: 0, -1, 1, -2 are 0, 1, 2, 3.
const fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

const fn unfold(folded: u64) -> i64 {
    (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed()
}

/// Twice the sectors, or twice the bytes and one. Addresses are far below 2^62.
const fn in_sectors(bytes: i64) -> i64 {
    if bytes % SECTOR_BYTES == 0 { bytes / SECTOR_BYTES * 2 } else { bytes.wrapping_mul(2) | 1 }
}

const fn in_bytes(number: i64) -> i64 {
    if number & 1 == 0 { (number / 2).wrapping_mul(SECTOR_BYTES) } else { number >> 1 }
}

fn low_bits(number: u64) -> u8 {
    u8::try_from(number & 0x7f).expect("seven bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ways_come_back() {
        for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put_step(&mut bytes, number, 5);
            put_step(&mut bytes, 5, number);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(number));
            assert_eq!(take_step(&mut rest, number), Some(5));
            assert_eq!(take_step(&mut rest, 5), Some(number));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn addresses_and_lengths_are_in_sectors_where_they_can_be() {
        for (from, to, length) in
            [(0, 4096, 1), (4096, 0, 1), (512, 0, 1), (0, 1, 1), (9, 3, 1), (1 << 52, 7, 8), (0, 1 << 52, 7)]
        {
            let mut bytes = Vec::new();
            put_way(&mut bytes, from, to);
            assert_eq!(bytes.len(), length, "{from} to {to}");
            put_bytes(&mut bytes, to);
            let mut rest = bytes.as_slice();
            assert_eq!((take_way(&mut rest, from), take_bytes(&mut rest)), (Some(to), Some(to)));
        }
    }

    #[test]
    fn numbers_that_are_cut_off_or_too_long_are_none() {
        for bad in [&[][..], &[0x80], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert_eq!(take(&mut &*bad), None, "{bad:?}");
        }
    }
}
