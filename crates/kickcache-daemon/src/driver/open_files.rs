//! The limit of open files, and the reserve that clients must leave free.
//!
//! The kernel gives out the lowest free descriptor number, so that the number of a new descriptor is a lower
//! bound of the descriptors in use.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most descriptors that are reserved for control, state and new devices.
const RESERVE_MAX: u64 = 256;
/// If the limit is small, one in this many descriptors is reserved.
const RESERVE_PART: u64 = 4;
const LIMIT_MAX: u64 = 1 << 20;

static SOFT_LIMIT: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit, at most to `LIMIT_MAX`, if the system permits it.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    if limit.current.is_some_and(|current| current < wanted) {
        // If the system refuses, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
    *SOFT_LIMIT.get_or_init(soft_limit)
}

fn soft_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of descriptors, the lowest ones, that clients may use of a limit.
fn for_clients(limit: u64) -> u64 {
    limit - (limit / RESERVE_PART).min(RESERVE_MAX)
}

/// Whether the descriptor of a client is part of the reserve, and must be closed.
pub(crate) fn is_of_reserve(descriptor: impl AsFd) -> bool {
    let limit = *SOFT_LIMIT.get_or_init(soft_limit);
    u64::try_from(descriptor.as_fd().as_raw_fd()).is_ok_and(|number| number >= for_clients(limit))
}

pub(crate) fn refusal() -> String {
    let limit = *SOFT_LIMIT.get_or_init(soft_limit);
    format!(
        "{} of {limit} open files are in use, and the rest is for control, state and devices; raise LimitNOFILE= (ulimit -Hn), or let \
         fewer clients connect",
        for_clients(limit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_small_limit_is_kept_free() {
        assert_eq!([64, 1024, 524_288, u64::MAX].map(for_clients), [48, 768, 524_032, u64::MAX - 256]);
    }

    #[test]
    fn the_number_of_a_descriptor_decides_whether_it_is_refused() {
        raise_limit();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_of_reserve(&file));
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(Some(soft_limit()), hard.map(|hard| hard.min(LIMIT_MAX)));
    }
}
