//! The time of a wait that is due to devices: the part until an event was available.
//!
//! The delay of a woken thread until it gets a processor is subtracted from a wait.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The count is read once for this much waiting time, as a read costs a system call.
const CHECK_AFTER: Duration = Duration::from_millis(1);

pub(crate) struct DeviceClock {
    /// The thread's file in /proc; `None` if the kernel does not count its delays.
    schedstat: Option<File>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    /// The thread's nanoseconds of waiting for a processor since its start, at the last reading.
    late: u64,
    /// Nanoseconds of waits since `late` was read.
    unchecked: u64,
    /// Nanoseconds that are to be subtracted from the next waits.
    owed: u64,
}

impl DeviceClock {
    pub(crate) fn new() -> DeviceClock {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let late = schedstat.as_ref().and_then(waits_for_a_processor);
        let account = Account { late: late.unwrap_or(0), ..Account::default() };
        DeviceClock { schedstat: schedstat.filter(|_| late.is_some()), account }
    }

    /// The part of a wait that is due to devices; zero if the kernel does not count delays.
    pub(crate) fn pass(&mut self, wait: Duration) -> Duration {
        let Some(schedstat) = &self.schedstat else { return Duration::ZERO };
        self.account.pass(wait, || waits_for_a_processor(schedstat))
    }
}

impl Account {
    fn pass(&mut self, wait: Duration, late: impl FnOnce() -> Option<u64>) -> Duration {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.unchecked = self.unchecked.saturating_add(nanos);
        if u128::from(self.unchecked) >= CHECK_AFTER.as_nanos() {
            let late = late().unwrap_or(self.late);
            // A longer delay was in part while the thread had work to do, and not in these waits.
            self.owed = late.saturating_sub(self.late).min(self.unchecked);
            (self.late, self.unchecked) = (late, 0);
        }
        let paid = self.owed.min(nanos);
        self.owed -= paid;
        Duration::from_nanos(nanos - paid)
    }
}

fn waits_for_a_processor(schedstat: &File) -> Option<u64> {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    let mut fields = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
    let (ran, late) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse().ok()?);
    (ran > 0).then_some(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn waiting_for_a_processor_is_taken_off_a_long_wait() {
        let mut account = Account { late: 500_000, ..Account::default() };
        assert_eq!(account.pass(micros(12_000), || Some(10_500_000)), micros(2_000));
        assert_eq!(account.pass(micros(12_000), || Some(10_500_000)), micros(12_000));
        assert_eq!(
            account.pass(micros(3_000), || Some(90_000_000)),
            micros(0),
            "it was late with its work, too"
        );
        assert_eq!(account.pass(micros(3_000), || Some(90_000_000)), micros(3_000));
    }

    #[test]
    fn short_waits_are_corrected_later_with_few_reads() {
        let mut account = Account::default();
        let (mut all, mut reads, mut late) = (Duration::ZERO, 0, 0);
        for _ in 0..1_000 {
            late += 80_000;
            all += account.pass(micros(100), || {
                reads += 1;
                Some(late)
            });
        }
        assert_eq!(reads, 100);
        assert!((micros(19_000)..=micros(22_000)).contains(&all), "{all:?} of 20 ms");
    }

    #[test]
    fn a_sleep_passes_if_the_kernel_counts() {
        let mut clock = DeviceClock::new();
        if clock.schedstat.is_none() {
            eprintln!("skipped: this kernel does not count how long threads wait for a processor");
            assert_eq!(clock.pass(micros(5_000)), Duration::ZERO);
            return;
        }
        let begun = std::time::Instant::now();
        std::thread::sleep(micros(20_000));
        let wait = begun.elapsed();
        let passed = clock.pass(wait);
        assert!(passed <= wait && passed > Duration::ZERO, "{passed:?} of {wait:?}");
    }
}
