//! What callers take of a slot with and without the lock.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use ratelimit_spec::{Mode, Rule};

use super::*;
use crate::{
    algorithm::{self, Left},
    clock::ManualClock,
    store::{Config, Outcome, Terms},
};

const RULE: Whose = Whose::rule(7, 1);
const RULES: [Rule; 3] =
    [Rule::SlidingWindow, Rule::TokenBucket { burst: 60 }, Rule::FixedWindow { calendar: None }];

/// A slot that calls of `RULE` count with this configuration.
fn counted_by(config: Config) -> Slot {
    let (slot, rejects) = (Slot::new(State::default()), Rejects { calls: true, requests: true });
    let terms = std::sync::Arc::new(Terms::new((7, 0), 1, config, false, rejects));
    slot.admit(Lease { terms, until_ms: u64::MAX }, || true);
    slot
}

fn allots(slot: &Slot) -> bool {
    slot.allotment.is_open()
}

#[test]
fn calls_with_and_without_an_allotment_are_decided_alike() {
    for rule in RULES {
        let config = Config::new(60, 50, Mode::Overall).rule(rule);
        let (slot, manual) = (counted_by(config), ManualClock::new());
        let (clock, mut plain) = (Clock::from(manual.clone()), algorithm::State::default());
        let (mut allotted, mut refused) = (0, 0);
        for random in algorithm::noise(5).take(20_000) {
            if random % 8 == 0 {
                manual.advance(Duration::from_millis(random / 8 % 12));
            }
            let (permits, now) = (u32::try_from(1 + random / 100 % 3).unwrap(), clock.now_ms());
            allotted += u32::from(allots(&slot));
            let spent = slot.spend(&clock, RULE, permits);
            let near = |_: &algorithm::State, left: Left| left.is_near_limit(&config);
            assert_eq!(spent, plain.spend(&config, permits.into(), now, false, near), "{config:?}");
            if spent.is_none() {
                // Refused, or in the first call of a window.
                let granted = plain.acquire(&config, permits.into(), now).granted;
                let taken = slot.take(&clock, RULE, permits).unwrap();
                let (reply, _) = taken.expect_err("it is not only counted");
                assert_eq!(reply.outcome == Outcome::Granted, granted, "{config:?}");
                refused += u32::from(!granted);
            }
            if random % 5 == 0 {
                let peek = |state: &algorithm::State| state.peek(&config, 1, now);
                assert_eq!(peek(&slot.lock().used), peek(&plain), "{config:?}");
            }
        }
        assert!(allotted > 300 && refused > 1000, "{config:?}: {allotted}, {refused}");
    }
}

#[test]
fn only_the_callers_of_its_millisecond_take_of_an_allotment() {
    let config = Config::new(1000, 1000, Mode::Overall);
    let (slot, manual) = (counted_by(config), ManualClock::new());
    let clock = Clock::from(manual.clone());
    let spend = |whose| slot.spend(&clock, whose, 1).is_some();
    assert!(spend(RULE) && !allots(&slot), "the first call of a millisecond allots none");
    assert!(spend(RULE) && allots(&slot));
    // After a reload, or with other settings.
    assert!(
        ![Whose::rule(7, 2), Whose::rule(8, 1), Whose::family(1, 1)].map(spend).contains(&true)
    );
    assert!(!allots(&slot));
    assert!(spend(RULE) && allots(&slot));
    manual.advance(Duration::from_millis(1));
    assert!(spend(RULE) && !allots(&slot));
    assert_eq!(slot.lock().used.peek(&config, 1, clock.now_ms()).remaining, 1000 - 4);
}

/// Threads take permits, while another one reads the state all the time.
#[test]
fn threads_take_exactly_the_permits_that_are_free() {
    const RATE: u32 = 300_000;
    for rule in RULES {
        let rule = rule.map_burst(|_| RATE);
        let config = Config::new(RATE.into(), 3_600_000_000, Mode::Overall).rule(rule);
        let (slot, clock, taken) = (counted_by(config), Clock::system(), AtomicU64::new(0));
        let _ = slot.take(&clock, RULE, 1);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let spend = || {
                while slot.spend(&clock, RULE, 2).is_some() {
                    taken.fetch_add(2, Ordering::Relaxed);
                }
            };
            let threads = [(); 4].map(|()| scope.spawn(spend));
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let left = slot.lock().used.peek(&config, 1, clock.now_ms()).remaining;
                    assert!(left <= RATE.into());
                    thread::yield_now();
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(taken.into_inner(), u64::from((RATE - 1) / 2 * 2), "{config:?}");
    }
}
