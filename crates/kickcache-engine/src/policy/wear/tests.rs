use super::*;

const BUDGET: u64 = 96 << 20;
const BLOCK: u64 = 4096;

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn wear() -> Wear {
    Wear::new(Instant::ZERO, NonZeroU64::new(BUDGET))
}

/// Offers this many blocks of a rank each second between two hours; returns the bytes that were written for them.
fn ask(wear: &mut Wear, rank: Rank, hours: core::ops::Range<u64>, each_second: u64) -> u64 {
    let mut written = 0;
    for second in hours.start * 3_600..hours.end * 3_600 {
        for _ in 0..each_second {
            if wear.allows(at(second), rank, 1) {
                wear.on_written(at(second), BLOCK);
                written += BLOCK;
            }
        }
    }
    written
}

fn is_within(bytes: u64, percent: core::ops::RangeInclusive<u64>) -> bool {
    percent.contains(&(bytes * 100 / BUDGET))
}

#[test]
fn each_day_of_demand_uses_the_whole_budget() {
    let mut wear = wear();
    for day in 0..3 {
        let written = ask(&mut wear, Rank::Unknown, day * 24..(day + 1) * 24, 1);
        assert!(is_within(written, 95..=100), "day {day}: {written}");
    }
    assert!(is_within(wear.day_bytes(at(72 * 3_600)), 95..=100));
}

#[test]
fn an_empty_cache_fills_a_quarter_at_once() {
    let mut wear = wear();
    let first = ask(&mut wear, Rank::Unknown, 0..1, 20);
    assert!(is_within(first, 24..=30), "{first}");
    let hours: alloc::vec::Vec<u64> =
        (1..20).map(|hour| ask(&mut wear, Rank::Unknown, hour..hour + 1, 20)).collect();
    assert!(hours.iter().all(|bytes| is_within(*bytes, 1..=5)), "{hours:?}");
}

#[test]
fn a_daily_demand_at_one_hour_gets_the_budget() {
    let mut wear = wear();
    let day = |wear: &mut Wear, day: u64| ask(wear, Rank::Unknown, day * 24 + 8..day * 24 + 16, 5);
    let first = day(&mut wear, 0);
    let second = day(&mut wear, 1);
    assert!(first < second && is_within(second, 94..=101), "{first}, then {second}");
}

#[test]
fn ranks_are_given_up_one_after_the_other() {
    let mut wear = wear();
    assert_eq!((wear.given_up(at(0)), wear.window(at(0), 1 << 20)), (GivenUp::Nothing, 1 << 20));
    let mut seen = alloc::vec::Vec::new();
    for _ in 0..BUDGET / 4 / BLOCK {
        wear.on_written(at(0), BLOCK);
        seen.push(wear.given_up(at(0)));
        if seen.last() == Some(&GivenUp::UnknownBlocks) {
            assert_eq!(wear.window(at(0), 1 << 20), 4096, "nothing is left of read-ahead");
            assert_eq!(wear.part(at(0), Rank::LongAgo), WHOLE);
        }
    }
    seen.dedup();
    let all = [
        GivenUp::Nothing,
        GivenUp::ReadAhead,
        GivenUp::UnknownBlocks,
        GivenUp::KnownBlocks,
        GivenUp::Everything,
    ];
    assert_eq!(seen, all);
    assert!(!wear.allows(at(0), Rank::JustNow, 1));
}

#[test]
fn known_blocks_enter_when_unknown_ones_exceed_the_budget() {
    let mut wear = wear();
    ask(&mut wear, Rank::Unknown, 0..12, 5);
    let known = (0..1_000).filter(|_| wear.allows(at(12 * 3_600), Rank::JustNow, 1)).count();
    assert_eq!(known, 1_000);
}

#[test]
fn client_writes_beyond_the_budget_stop_fills_for_a_day() {
    let mut wear = wear();
    wear.on_written(at(10), 2 * BUDGET);
    assert_eq!(ask(&mut wear, Rank::JustNow, 0..23, 1), 0);
    assert!(ask(&mut wear, Rank::JustNow, 24..30, 1) > 0);
}

#[test]
fn a_later_budget_counts_earlier_writes() {
    let mut wear = Wear::new(Instant::ZERO, None);
    assert!(wear.allows(at(0), Rank::Unknown, 1));
    wear.on_written(at(60), BUDGET);
    assert_eq!(wear.window(at(60), 1 << 20), 1 << 20);
    wear.set_budget(at(60), NonZeroU64::new(BUDGET));
    assert!(!wear.allows(at(60), Rank::Unknown, 1));
    wear.set_budget(at(60), NonZeroU64::new(8 * BUDGET));
    assert!(!wear.allows(at(60), Rank::Unknown, 1), "credit comes with time");
    assert!(wear.allows(at(3_600), Rank::Unknown, 1));
    wear.set_budget(at(60), None);
    assert!(wear.allows(at(60), Rank::Unknown, 1));
}

#[test]
fn a_day_is_the_last_24_hours_even_when_idle() {
    let mut wear = Wear::new(at(7_200), None);
    wear.on_written(at(7_300), 5);
    wear.on_written(at(7_200 + 12 * 3_600), 7);
    assert_eq!([14, 26, 38].map(|hour| wear.day_bytes(at(hour * 3_600))), [12, 7, 0]);
    assert_eq!(wear.counted(at(5 * 3_600)).as_nanos() / 1_000_000_000, 3 * 3_600);
    assert_eq!(wear.counted(at(50 * 3_600)).as_nanos(), DAY);
}

#[test]
fn a_day_with_restarts_in_it_has_one_budget() {
    let budget = NonZeroU64::new(BUDGET);
    let mut history = WearHistory::default();
    let mut total = 0;
    for _ in 0..24 {
        let mut wear = Wear::new(Instant::ZERO, budget);
        wear.remember(Instant::ZERO, &history, Duration::from_nanos(0));
        total += ask(&mut wear, Rank::Unknown, 0..1, 5);
        history = wear.history(at(3_600));
    }
    assert!(is_within(total, 90..=100), "{total}");
    assert_eq!(history.slots.iter().map(|slot| slot.written).sum::<u64>(), total);
}

#[test]
fn a_history_covers_the_younger_part_of_a_day() {
    let mut wear = Wear::new(Instant::ZERO, None);
    wear.on_written(at(0), 5);
    wear.on_written(at(12 * 3_600), 7);
    let history = wear.history(at(12 * 3_600));
    assert_eq!((history.slots.len(), history.slots[0].written, history.slots[48].written), (49, 5, 7));
    assert_eq!(wear.history(at(30 * 3_600)).slots.len(), SLOTS);

    let after = |hours: u64| {
        let mut next = Wear::new(Instant::ZERO, None);
        next.on_written(at(10), 3);
        next.remember(at(20), &history, Duration::from_nanos(hours * 3_600_000_000_000));
        next
    };
    assert_eq!([0, 6, 13, 30].map(|hours| after(hours).day_bytes(at(30))), [15, 15, 10, 3]);
    assert_eq!(
        [0, 13, 30].map(|hours| after(hours).counted(at(0)).as_nanos() / 3_600_000_000_000),
        [12, 23, 0]
    );
    assert_eq!(after(6).day_bytes(at(7 * 3_600)), 10, "the older part is over a day ago");
    assert_eq!(after(6).day_bytes(at(19 * 3_600)), 3);
    assert_eq!(after(6).day_bytes(at(25 * 3_600)), 0);
}

#[test]
fn bytes_of_an_earlier_life_are_counted_with_its_time() {
    let mut wear = Wear::new(Instant::ZERO, None);
    wear.on_written(at(100), 5);
    let history = wear.history(at(300));
    let mut next = Wear::new(Instant::ZERO, None);
    next.remember(at(2), &history, Duration::from_nanos(40 * 1_000_000_000));
    assert_eq!((next.day_bytes(at(10)), next.counted(at(10)).as_nanos()), (5, 350 * 1_000_000_000));
    let mut third = Wear::new(Instant::ZERO, None);
    third.remember(at(0), &next.history(at(10)), Duration::from_nanos(0));
    assert_eq!(third.counted(at(0)).as_nanos(), 350 * 1_000_000_000);
}

#[test]
fn credit_outlives_a_restart_as_it_was() {
    let mut wear = wear();
    ask(&mut wear, Rank::JustNow, 0..2, 50);
    let history = wear.history(at(2 * 3_600));
    let mut next = self::wear();
    next.remember(Instant::ZERO, &history, Duration::from_nanos(0));
    assert_ne!(next.given_up(at(0)), GivenUp::Nothing);
    let mut later = self::wear();
    later.remember(Instant::ZERO, &history, Duration::from_nanos(DAY));
    assert_eq!(later.given_up(at(0)), GivenUp::Nothing, "a day later it is as new");
}
