//! Grants of payload memory, and their order.

use super::*;
use crate::driver::common_memory::CommonMemory;

const MIB: usize = 1 << 20;

/// A loop whose volumes share 128 MiB, with 128 MiB of common memory.
fn budget(volumes: usize) -> Budget {
    of(&PayloadMemory::new(256 * MIB, volumes), volumes)
}

fn of(memory: &PayloadMemory, volumes: usize) -> Budget {
    Budget::new(memory, volumes, Arc::new(Wakeup::new().unwrap()))
}

fn claim(volume: usize, bytes: usize, key: u64) -> Claim {
    // A claim as of a connection that has much memory in use.
    Claim { volume, bytes, held: 32 * MIB, key }
}

fn key(grant: Option<LateGrant>) -> Option<u64> {
    grant.map(|late| late.key)
}

/// Takes requests of 1 MiB until none gets memory; the last one waits.
fn fill(budget: &mut Budget, volume: usize) -> Vec<Grant> {
    std::iter::from_fn(|| budget.reserve(claim(volume, MIB, 1))).collect()
}

#[test]
fn everything_charged_is_within_the_limit() {
    let memory = PayloadMemory::new(256 * MIB, 4);
    let mut loops = [of(&memory, 2), of(&memory, 2)];
    let mut grants = Vec::new();
    for (index, budget) in loops.iter_mut().enumerate() {
        for volume in 0..2 {
            grants.extend(fill(budget, volume).into_iter().map(|grant| (index, grant)));
        }
        for _ in 0..CONNECTION_COUNT * 8 {
            let little = Claim { held: 0, ..claim(0, 4096, 2) };
            grants.extend(budget.reserve(little).into_iter().map(|grant| (index, grant)));
        }
    }
    let used: usize = loops.iter().map(Budget::used).sum();
    assert!(used <= 256 * MIB && used > 192 * MIB, "{used}");
    grants.into_iter().for_each(|(index, grant)| loops[index].release(grant));
    assert_eq!(loops.iter().map(Budget::used).sum::<usize>(), 0);
    assert_eq!(memory.common.used_bytes(), 0);
}

#[test]
fn a_greedy_volume_does_not_block_others() {
    let mut budget = budget(2);
    let greedy = fill(&mut budget, 0);
    assert_eq!(greedy.len(), 96, "half of its part of 64 MiB, and half of the common 128 MiB");
    assert_eq!(fill(&mut budget, 1).len(), 96);
    assert!(greedy.len() > 32);
}

#[test]
fn a_small_connection_does_not_wait_for_larger_ones() {
    let mut budget = budget(1);
    let _all = fill(&mut budget, 0);
    let little = |held| Claim { held, ..claim(0, 64 << 10, 7) };
    for held in 0..8 {
        assert!(budget.reserve(little(held * (64 << 10))).is_some());
    }
    assert!(budget.reserve(little(8 * (64 << 10))).is_none(), "it has its share of 512 KiB");
}

#[test]
fn requests_of_a_volume_get_memory_in_their_order() {
    let mut budget = budget(1);
    let mut all = fill(&mut budget, 0);
    budget.cancel(1);
    assert!(budget.reserve(claim(0, 2 * MIB, 10)).is_none());
    assert!(budget.reserve(claim(0, MIB, 11)).is_none());
    assert_eq!(key(budget.poll_grant()), None);
    budget.release(all.pop().unwrap());
    assert_eq!(key(budget.poll_grant()), None, "the first one needs more, and the second one is behind it");
    budget.release(all.pop().unwrap());
    assert_eq!(key(budget.poll_grant()), Some(10));
    assert_eq!(key(budget.poll_grant()), None);
    budget.release(all.pop().unwrap());
    assert_eq!((key(budget.poll_grant()), budget.waiting_count()), (Some(11), 0));
}

#[test]
fn the_volume_with_the_least_common_memory_is_next() {
    let mut budget = budget(3);
    let mut common: Vec<Grant> = Vec::new();
    for volume in [0, 1] {
        common.extend(fill(&mut budget, volume).into_iter().filter(|grant| grant.pool == Pool::Common));
    }
    assert!(budget.reserve(claim(2, 30 * MIB, 3)).is_none());
    assert_eq!(key(budget.poll_grant()), None);
    for _ in 0..29 {
        budget.release(common.pop().unwrap());
        assert_eq!(key(budget.poll_grant()), None, "it is for the third volume");
    }
    budget.release(common.pop().unwrap());
    assert_eq!(key(budget.poll_grant()), Some(3));
}

#[test]
fn volumes_take_turns_at_large_requests() {
    let mut budget = of(&PayloadMemory::new(64 * MIB, 2), 2);
    let large = |volume, key| claim(volume, 32 * MIB, key);
    let mut held = budget.reserve(large(0, 1)).unwrap();
    for key in 10..20 {
        assert!(budget.reserve(large(0, key)).is_none());
    }
    assert!(budget.reserve(large(1, 30)).is_none() && budget.reserve(large(1, 31)).is_none());
    let mut order = Vec::new();
    for _ in 0..4 {
        budget.release(held);
        let late = budget.poll_grant().unwrap();
        order.push(late.key);
        held = late.grant;
    }
    assert_eq!(order, [30, 10, 31, 11]);
}

#[test]
fn a_cancelled_request_keeps_no_other_waiting() {
    let mut budget = budget(1);
    let mut all = fill(&mut budget, 0);
    assert!(budget.reserve(claim(0, 31 * MIB, 20)).is_none() && budget.reserve(claim(0, MIB, 21)).is_none());
    budget.cancel(1);
    budget.cancel(20);
    budget.release(all.pop().unwrap());
    assert_eq!(key(budget.poll_grant()), Some(21));
}

#[test]
fn only_memory_that_requests_wait_for_is_wanted() {
    let memory = PayloadMemory::new(256 * MIB, 3);
    let mut loops = [of(&memory, 1), of(&memory, 1), of(&memory, 1)];
    assert!(loops[0].reserve(claim(0, MIB, 1)).is_some(), "of its own part");
    assert!(loops[1].reserve(claim(0, 30 * MIB, 1)).is_some(), "of the common memory");
    let _all = fill(&mut loops[2], 0);
    let wanted =
        |loops: &[Budget; 3]| loops.each_ref().map(|budget| (budget.has_waiting(), budget.is_wanted(0)));
    assert_eq!(key(loops[2].poll_grant()), None);
    assert_eq!(
        wanted(&loops),
        [(false, false), (false, false), (true, true)],
        "half of the common memory is free"
    );
    let mut late = of(&memory, 1);
    let _more = fill(&mut late, 0);
    assert_eq!(key(late.poll_grant()), None);
    assert_eq!(wanted(&loops)[..2], [(false, false), (true, true)], "the common memory is used up");
}

#[test]
fn a_loop_that_ends_gives_the_common_memory_back() {
    let memory = PayloadMemory::new(256 * MIB, 2);
    let mut first = of(&memory, 1);
    let _all = fill(&mut first, 0);
    assert!(memory.common.used_bytes() > 0);
    drop(first);
    assert_eq!(memory.common.used_bytes(), 0);
}

#[test]
fn late_volumes_do_not_pass_the_limit() {
    let mut budget = budget(1);
    let early = fill(&mut budget, 0);
    budget.set_volumes(8);
    let late: usize = (1..8).map(|volume| fill(&mut budget, volume).len()).sum();
    assert!(budget.used() <= 256 * MIB && late > 0);
    assert!(!early.is_empty());
}

#[test]
fn every_request_fits_if_all_memory_is_free() {
    for limit in [64 * MIB, 96 * MIB, 256 * MIB] {
        let memory = PayloadMemory::new(limit, 16);
        let mut budget = of(&memory, 16);
        assert!(budget.reserve(claim(15, 32 * MIB + 4096, 1)).is_some(), "{limit}");
    }
    assert_eq!(CommonMemory::new(1).limit(), 1);
}
