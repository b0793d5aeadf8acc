//! Numbers of bytes as indices.

/// A number of bytes as an index.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).expect("simulated devices are small")
}
