//! What is particular to the rules whose permits can be taken in advance.

use ratelimit_runtime::__private::store::{
    Algorithm, Grant, Outcome, Reservation, Rule, StateKeys, Store,
};
use std::time::Duration;
use tokio::time::Instant;

use super::{Process, Time, config};

/// Keeps what a `Reservation` promises.
pub(super) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let since = Instant::now();
    let process = |name: &str, config| {
        let keys = StateKeys::new(format!("{prefix}{name}"));
        Process { store, keys, config, revision: 0, since }
    };
    let spaces = config(Algorithm::LeakyBucket, 5, 1000);
    slots_follow_each_other(&process("slots", spaces), time).await;
    let saves = config(Algorithm::TokenBucket, 5, 1000).rule(Rule::TokenBucket { burst: 3 });
    what_comes_too_late_takes_nothing(&process("late", saves), time).await;
    only_the_last_one_is_given_back(&process("given-up", spaces)).await;
    let slow = config(Algorithm::TokenBucket, 10, 10_000);
    what_is_given_up_holds_nothing_back(&process("released", slow)).await;
    let warms_up = config(Algorithm::TokenBucket, 2, 1000);
    let warms_up = warms_up.rule(Rule::WarmingBucket { warm_up: Duration::from_secs(4) });
    a_cold_bucket_is_slow_first(&process("warms-up", warms_up)).await;
    let slides = config(Algorithm::SlidingWindow, 5, 1000);
    several_are_reserved_at_once(&process("several-slots", spaces)).await;
    a_release_keeps_the_spacing(&process("spacing", spaces)).await;
    other_rules_know_none(&process("slides", slides)).await;
}

impl<S: Store> Process<'_, S> {
    async fn reserve(&self, permits: u32, within_ms: u64) -> Reservation {
        self.reserve_all(&[permits], within_ms).await.remove(0)
    }

    async fn reserve_all(&self, costs: &[u32], within_ms: u64) -> Vec<Reservation> {
        let request = self.request(super::Assertion::Steady);
        self.store.reserve(&request, costs, within_ms).await.expect("the store answers")
    }

    async fn return_slot(&self, permits: u32, told: &Reservation) -> bool {
        let grant = told.grant(permits).expect("it was granted");
        self.store.give_back(&self.keys, &grant).await.expect("the store answers") > 0
    }
}

/// When the caller may go, by the store's clock; it was granted.
fn goes_at(told: &Reservation) -> u64 {
    assert_eq!(told.reply.outcome, Outcome::Granted, "a wait it has time for");
    told.reply.now_ms + told.wait_ms
}

async fn slots_follow_each_other<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let start = goes_at(&limiter.reserve(1, 60_000).await);
    for (permits, slot) in [(1, 200), (2, 400), (1, 800)] {
        let told = limiter.reserve(permits, 60_000).await;
        assert_eq!(goes_at(&told), start + slot, "a slot for each permit, one after the other");
    }
    let reply = limiter.acquire(1).await;
    assert_eq!(reply.outcome, Outcome::Refused, "who does not wait comes after them");
    assert_eq!(reply.now_ms + reply.retry_after_ms, start + 1000, "and is told when that is");
    time.pass(1020).await;
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Granted, "then the way is free");
}

async fn what_comes_too_late_takes_nothing<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let told = limiter.reserve(4, u64::MAX).await;
    assert_eq!(told.reply.outcome, Outcome::ExceedsCapacity, "4 of 3");
    let told = limiter.reserve(3, 0).await;
    assert_eq!((told.reply.outcome, told.wait_ms), (Outcome::Granted, 0), "no wait at all");
    let told = limiter.reserve(3, 300).await;
    assert_eq!(told.reply.outcome, Outcome::Refused, "600 ms are too many");
    assert!((550..=600).contains(&told.reply.retry_after_ms), "and it is told how many");
    let told = limiter.reserve(1, 300).await;
    assert!((150..=200).contains(&told.wait_ms), "nothing was taken for the one before");
    time.pass(220).await;
    assert_eq!(limiter.peek(1).await.outcome, Outcome::Refused, "what came back is reserved");
}

async fn only_the_last_one_is_given_back<S: Store>(limiter: &Process<'_, S>) {
    let start = goes_at(&limiter.reserve(1, 0).await);
    let middle = limiter.reserve(1, 60_000).await;
    let last = limiter.reserve(1, 60_000).await;
    assert!(!limiter.return_slot(1, &middle).await, "somebody comes after it");
    assert!(limiter.return_slot(1, &last).await, "the last one is given back");
    assert!(!limiter.return_slot(1, &last).await, "once");
    assert_eq!(goes_at(&limiter.reserve(1, 60_000).await), start + 400, "to whoever comes next");
}

async fn what_is_given_up_holds_nothing_back<S: Store>(limiter: &Process<'_, S>) {
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted);
    let slots = limiter.reserve_all(&[1; 10], 60_000).await;
    assert_eq!(limiter.release(10).await, 9, "the last slot stays where it is");
    for slot in slots.iter().rev() {
        assert!(limiter.return_slot(1, slot).await, "each is the last one then");
    }
    assert!(limiter.release(10).await > 0, "nothing is reserved any more");
    assert_eq!(limiter.peek(1).await.remaining, 10);
}

async fn a_cold_bucket_is_slow_first<S: Store>(limiter: &Process<'_, S>) {
    let start = goes_at(&limiter.reserve(1, 0).await);
    for slot in [1375, 2500, 3375, 4000, 4500, 5000] {
        let told = limiter.reserve(1, 60_000).await;
        assert_eq!(goes_at(&told), start + slot, "up to three times as long, then the rate");
    }
    let last = limiter.reserve(2, 60_000).await;
    assert_eq!(goes_at(&last), start + 5500, "what it costs, the next one waits for");
    assert!(limiter.return_slot(2, &last).await, "and it is given back whole");
    assert_eq!(goes_at(&limiter.reserve(1, 60_000).await), start + 5500, "to whoever is next");
    let reply = limiter.acquire(3).await;
    assert_eq!(reply.outcome, Outcome::ExceedsCapacity, "one request gets a rate at the most");
}

async fn several_are_reserved_at_once<S: Store>(limiter: &Process<'_, S>) {
    let told = limiter.reserve_all(&[1, 2, 1, 3, 1], 700).await;
    let start = goes_at(&told[0]);
    assert_eq!(goes_at(&told[1]), start + 200, "one after the other");
    assert_eq!(goes_at(&told[2]), start + 600, "each in its slots");
    for told in &told[3..] {
        assert_eq!(told.reply.outcome, Outcome::Refused, "800 ms are too many, also for the next");
    }
    assert!(told[1..].iter().all(|told| told.reply.reconciled.is_none()), "it is told once");
    let (second, third) = (told[1].grant(2), told[2].grant(1));
    let give_back = |grant| async move {
        let grant: Grant = Option::expect(grant, "it was granted");
        limiter.store.give_back(&limiter.keys, &grant).await.expect("the store answers")
    };
    assert_eq!(give_back(second).await, 0, "somebody comes after it");
    assert_eq!(give_back(third).await, 1, "the last one is given back");
    assert_eq!(goes_at(&limiter.reserve(1, 60_000).await), start + 600, "to whoever comes next");
    assert!(limiter.reserve_all(&[], 0).await.is_empty(), "nothing for nobody");
}

async fn a_release_keeps_the_spacing<S: Store>(limiter: &Process<'_, S>) {
    let told = limiter.reserve_all(&[1, 1, 1], 60_000).await;
    let last = goes_at(&told[2]);
    assert_eq!(limiter.release(2).await, 0, "what is reserved stays");
    assert_eq!(goes_at(&limiter.reserve(1, 60_000).await), last + 200, "nobody shares a slot");
}

async fn other_rules_know_none<S: Store>(limiter: &Process<'_, S>) {
    let told = limiter.reserve(1, 60_000).await;
    assert_eq!(told.reply.outcome, Outcome::Refused, "a window cannot say who goes when");
    assert_eq!(limiter.peek(1).await.remaining, 5, "and nothing is taken");
}
