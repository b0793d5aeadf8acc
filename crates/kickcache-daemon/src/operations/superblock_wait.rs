//! The wait for another operation that writes the superblock.

use std::thread;
use std::time::Duration;

use crate::driver::clock::WatchedTime;
use crate::serve::error::ServeError;

/// How long an operation waits, as for an earlier change of the served volumes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two orders.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Repeats an order while another operation writes the superblock, for 10 s at most.
///
/// # Errors
/// Those of the order.
pub(crate) fn when_free<T>(order: impl Fn() -> Result<T, ServeError>) -> Result<T, ServeError> {
    let mut waited = WatchedTime::begin();
    loop {
        match order() {
            Err(ServeError::Busy { .. }) if waited.look() < PATIENCE => thread::sleep(LOOK_EVERY),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_order_is_repeated_while_the_superblock_is_written() {
        let orders = Cell::new(0);
        let done = when_free(|| {
            orders.set(orders.get() + 1);
            match orders.get() {
                1 | 2 => Err(ServeError::Busy { path: "/dev/fast".into(), what: "it is written".into() }),
                _ => Ok(7),
            }
        });
        assert_eq!((done.unwrap(), orders.get()), (7, 3));
        assert!(matches!(when_free(|| Err::<(), _>(ServeError::Stopped)), Err(ServeError::Stopped)));
    }
}
