//! Traces of logs.

use super::*;

/// Runs (time, permits) requests and returns the times at which they were granted.
fn granted(rate: u64, per: u64, requests: &[(u64, u64)]) -> Vec<u64> {
    let mut log = Log::default();
    let requests = requests.iter();
    requests
        .filter(|&&(at, permits)| log.acquire(rate, per, permits, at).granted)
        .map(|&(at, _)| at)
        .collect()
}

#[test]
fn a_permit_is_free_again_at_exactly_its_age() {
    assert_eq!(granted(1, 1000, &[(0, 1), (999, 1), (1000, 1)]), [0, 1000]);
}

#[test]
fn costs_count_and_refused_calls_do_not() {
    let trace = [(0, 6), (500, 5), (500, 4), (1999, 1), (2000, 6), (2499, 1), (2500, 4)];
    assert_eq!(granted(10, 2000, &trace), [0, 500, 2000, 2500]);
}

#[test]
fn a_refusal_tells_the_exact_wait_for_this_many_permits() {
    let mut log = Log::default();
    for at in [0, 100, 200] {
        assert!(log.acquire(3, 1000, 1, at).granted);
    }
    for (permits, wait) in [(1, 750), (2, 850), (3, 950)] {
        let verdict = log.acquire(3, 1000, permits, 250);
        assert_eq!((verdict.granted, verdict.retry_after), (false, wait));
        assert!(!log.clone().acquire(3, 1000, permits, 250 + wait - 1).granted);
        assert!(log.clone().acquire(3, 1000, permits, 250 + wait).granted);
    }
}

#[test]
fn a_batch_is_its_calls_one_by_one_as_one_entry() {
    let mut log = Log::default();
    assert!(log.acquire(10, 1000, 4, 0).granted);
    let costs = [3, 11, 5, 2, 1].into_iter();
    let verdicts = log.open(10, 1000, costs.clone(), 400).decide(costs);
    let told: Vec<_> = verdicts.iter().map(|v| (v.granted, v.remaining, v.retry_after)).collect();
    // No permit is free at the end; four are free in 600 ms, and five a window after the batch.
    assert_eq!(
        told,
        [(true, 3, 600), (false, 10, 0), (false, 3, 1000), (true, 1, 600), (true, 0, 600)]
    );
    assert_eq!(log.entries.len(), 2);
}

#[test]
fn the_grant_of_the_last_permit_tells_when_the_next_is_free() {
    let mut log = Log::default();
    assert_eq!(log.acquire(2, 1000, 1, 0).retry_after, 0);
    assert_eq!(log.acquire(2, 1000, 1, 300).retry_after, 700);
}

#[test]
fn the_log_stays_short_and_never_frees_early() {
    let mut log = Log::default();
    for at in 0..10_000 {
        assert!(log.acquire(100_000, 10_000, 3, at).granted);
    }
    assert!(log.entries.len() <= MERGE_AT + 51, "{} entries", log.entries.len());
    assert_eq!(log.used, 30_000);
    log.expire(100_000, 10_000, 15_000);
    assert!(log.used >= 30_000 - 3 * 5_001, "freed early");
    log.expire(100_000, 10_000, 15_200);
    assert!(log.used <= 30_000 - 3 * 5_001, "freed later than 2 % of the window");
}

#[test]
fn a_clock_that_steps_back_locks_nobody_out_for_longer_than_a_window() {
    let mut log = Log::default();
    assert!(log.acquire(1, 1000, 1, 1_000_000).granted);
    let verdict = log.acquire(1, 1000, 1, 5_000);
    assert_eq!((verdict.granted, verdict.retry_after), (false, 1000));
    assert!(log.acquire(1, 1000, 1, 6_000).granted);
}

#[test]
fn a_rate_below_what_is_used_grants_nothing_until_enough_is_free() {
    let mut log = Log::default();
    for at in 0..10 {
        assert!(log.acquire(10, 1000, 1, at).granted);
    }
    let verdict = log.acquire(3, 1000, 1, 10);
    assert_eq!((verdict.granted, verdict.remaining, verdict.retry_after), (false, 0, 997));
    assert!(log.acquire(3, 1000, 1, 1007).granted);
}
