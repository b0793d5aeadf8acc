//! Numbers of bytes as indices.

pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).expect("simulated devices are small")
}
