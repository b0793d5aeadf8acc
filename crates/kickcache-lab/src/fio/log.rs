//! The log that fio writes for each job: operations a second, an interval a line.

use std::time::Duration;

use anyhow::Context;
use kickcache_engine::time;
use kickcache_model::result::JobResult;
use kickcache_model::result::series::Series;

/// Puts a log into the series of its job. Each line has the end of its interval in milliseconds, the rate in it, and
/// 0 for reads or 1 for writes; other directions are passed over.
///
/// # Errors
/// If a line makes no sense.
pub(super) fn read(log: &str, interval: Duration, job: &mut JobResult) -> anyhow::Result<()> {
    let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
    let length = time::Duration::from_millis(millis);
    (job.reads.ended, job.writes.ended) = (Series::new(length), Series::new(length));
    for line in log.lines() {
        let entry = entry(line)
            .with_context(|| format!("fio's log has the line `{line}`, which is not understood"))?;
        let at = time::Instant::from_nanos(entry.millis.saturating_sub(millis / 2).saturating_mul(1_000_000));
        let count = (entry.iops * millis + 500) / 1_000;
        match entry.direction {
            0 => job.reads.ended.add(at, count),
            1 => job.writes.ended.add(at, count),
            _ => {}
        }
    }
    Ok(())
}

struct Entry {
    millis: u64,
    iops: u64,
    direction: u64,
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(',').map(|field| field.trim().parse::<u64>().ok());
    Some(Entry { millis: fields.next()??, iops: fields.next()??, direction: fields.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_become_counts_of_each_direction() {
        let mut job = JobResult::new("job", 1);
        let log = "100, 17030, 0, 0, 0\n100, 7610, 1, 0, 0\n200, 17380, 0, 0, 0\n200, 5, 2, 0, 0\n";
        read(log, Duration::from_millis(100), &mut job).unwrap();
        assert_eq!((job.reads.ended.values(), job.writes.ended.values()), (&[1703, 1738][..], &[761][..]));
        assert_eq!(job.ended().values(), [2464, 1738]);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let fault = read("a, b", Duration::from_millis(100), &mut JobResult::new("job", 1)).unwrap_err();
        assert_eq!(fault.to_string(), "fio's log has the line `a, b`, which is not understood");
    }
}
