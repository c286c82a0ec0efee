//! What every store must do, as tests that run against any store.
//!
//! ```no_run
//! # async fn conforms(store: ratelimit_runtime::store::MemoryStore, time: ratelimit_runtime::ManualClock) {
//! use ratelimit_runtime::store::suite;
//!
//! suite::run(&store, "my-prefix:", &suite::Time::Manual(time)).await;
//! # }
//! ```

use std::time::Duration;

use ratelimit_spec::{Mode, OnDrift};
use tokio::time::Instant;

use super::{
    Assertion, Config, Expiry, KeepState, Outcome, Reconciled, Reply, Request, StateKeys, Store,
    WriteWhen,
};
use crate::{ManualClock, clock};

/// How the suite lets time pass for the store.
#[derive(Clone, Debug)]
pub enum Time {
    /// By moving the store's clock.
    Manual(ManualClock),
    /// By sleeping, for stores that have a clock of their own.
    Real,
}

impl Time {
    async fn pass(&self, ms: u64) {
        let duration = Duration::from_millis(ms);
        match self {
            Self::Manual(clock) => clock.advance(duration),
            Self::Real => tokio::time::sleep(duration).await,
        }
    }
}

/// One limiter as one process sees it.
struct Process<'a, S> {
    store: &'a S,
    keys: &'a StateKeys,
    config: Config,
    revision: u64,
    since: Instant,
}

impl<S: Store> Process<'_, S> {
    fn request(&self, permits: u32, assertion: Assertion) -> Request<'_> {
        Request::new(self.keys, self.config, self.since)
            .permits(permits)
            .revision(self.revision)
            .assertion(assertion)
    }

    async fn acquire(&self, permits: u32) -> Reply {
        let request = self.request(permits, Assertion::Steady);
        self.store.acquire(&request).await.expect("the store answers")
    }

    async fn acquire_all(&self, costs: &[u32]) -> Vec<Reply> {
        let request = self.request(1, Assertion::Steady);
        self.store.acquire_all(&request, costs).await.expect("the store answers")
    }

    async fn first(&self, permits: u32, on_drift: OnDrift) -> Reply {
        let request = self.request(permits, Assertion::First(on_drift));
        self.store.acquire(&request).await.expect("the store answers")
    }

    async fn release(&self, permits: u32) -> u64 {
        self.store.release(self.keys, permits).await.expect("the store answers")
    }

    async fn write(&self, rate: u64, when: WriteWhen, state: KeepState) -> bool {
        let config = Config { rate, ..self.config };
        self.store.write(self.keys, config, when, state).await.expect("the store answers")
    }

    async fn peek(&self, permits: u32) -> Reply {
        let request = self.request(permits, Assertion::Steady);
        self.store.peek(&request).await.expect("the store answers")
    }
}

fn config(rate: u64, per_ms: u64) -> Config {
    Config::new(rate, per_ms, Mode::Overall).keep_alive_ms(60_000.max(per_ms * 2))
}

/// Runs the whole suite; panics at the first promise that is broken. State lives under `prefix`.
///
/// # Panics
///
/// When the store breaks a promise, with the promise and what it did instead.
pub async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let base = clock::instant();
    let process = |keys, config, start: u64| Process {
        store,
        keys,
        config,
        revision: 0,
        since: base + Duration::from_millis(start),
    };
    let keys = |name: &str| StateKeys::new(format!("{prefix}{name}"));

    let window = keys("window");
    never_grants_more_than_the_rate(&process(&window, config(3, 400), 0), time).await;
    let costs = keys("costs");
    counts_costs_and_refuses_without_a_trace(&process(&costs, config(10, 500), 0), time).await;
    let large = keys("large");
    refuses_what_a_full_window_has_not(&process(&large, config(5, 500), 0)).await;
    let batch = keys("batch");
    decides_many_in_order_at_once(&process(&batch, config(10, 500), 0), time).await;
    let looked = keys("looked");
    peeks_without_taking(&process(&looked, config(2, 500), 0)).await;
    let one = keys("restart");
    never_refills_on_a_restart(
        &process(&one, config(4, 60_000), 1),
        &process(&one, config(4, 60_000), 2),
    )
    .await;
    let one = keys("reset");
    resets_once_and_follows(
        &process(&one, config(2, 60_000), 1),
        &process(&one, config(4, 60_000), 2),
    )
    .await;
    let one = keys("carry");
    carries_what_was_used(
        &process(&one, config(10, 60_000), 1),
        &process(&one, config(6, 60_000), 2),
    )
    .await;
    let one = keys("revision");
    let newer = Process { revision: 1, ..process(&one, config(4, 60_000), 1) };
    puts_revisions_before_starts(&newer, &process(&one, config(2, 60_000), 2)).await;
    let one = keys("mode");
    let per_client = Config { mode: Mode::PerClient, ..config(2, 60_000) };
    leaves_per_client_to_the_process(
        &process(&one, config(2, 60_000), 1),
        &process(&one, per_client, 2),
    )
    .await;
    let one = keys("release");
    gives_the_oldest_permits_back(&process(&one, config(10, 600), 0), time).await;
    let one = keys("write");
    writes_quotas_on_purpose(&process(&one, config(2, 60_000), 0)).await;
    let one = keys("follow");
    follows_what_is_stored(&process(&one, config(2, 60_000), 0)).await;
    let one = keys("expire");
    let for_ever = Config::new(2, 100, Mode::Overall);
    expires_and_is_deleted(&process(&one, for_ever, 0), time).await;
    keeps_limiters_apart(
        &process(&keys("a:b"), config(1, 60_000), 0),
        &process(&keys("a"), config(1, 60_000), 0),
    )
    .await;
}

async fn never_grants_more_than_the_rate<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    for left in [2, 1, 0] {
        let reply = limiter.acquire(1).await;
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, left), "within the rate");
    }
    let refused = limiter.acquire(1).await;
    assert_eq!(refused.outcome, Outcome::Refused, "beyond the rate");
    assert!(
        (1..=400).contains(&refused.retry_after_ms),
        "the wait lies within the window: {refused:?}"
    );
    assert!(
        refused.reset_after_ms >= refused.retry_after_ms,
        "full after something is free: {refused:?}"
    );
    if let Time::Manual(_) = time {
        time.pass(refused.retry_after_ms - 1).await;
        assert_eq!(
            limiter.acquire(1).await.outcome,
            Outcome::Refused,
            "a tick before the wait is over"
        );
        time.pass(1).await;
    } else {
        time.pass(refused.retry_after_ms).await;
    }
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Granted, "when the wait is over");
}

async fn counts_costs_and_refuses_without_a_trace<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    assert_eq!(limiter.acquire(6).await.remaining, 4, "a call takes what it costs");
    for _ in 0..50 {
        assert_eq!(limiter.acquire(5).await.outcome, Outcome::Refused, "5 of 4");
    }
    assert_eq!(limiter.acquire(4).await.outcome, Outcome::Granted, "refused calls took nothing");
    let refused = limiter.acquire(10).await;
    time.pass(refused.retry_after_ms).await;
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "the wait was for all ten");
}

async fn decides_many_in_order_at_once<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    use Outcome::{ExceedsCapacity, Granted, Refused};
    assert!(limiter.acquire_all(&[]).await.is_empty(), "nothing for nobody");
    let replies = limiter.acquire_all(&[1, 1, 5, 11, 4, 3, 3]).await;
    let told: Vec<_> = replies.iter().map(|reply| (reply.outcome, reply.remaining)).collect();
    assert_eq!(
        told,
        [
            (Granted, 9),
            (Granted, 8),
            (Granted, 3),
            (ExceedsCapacity, 10),
            (Refused, 3),
            (Granted, 0),
            (Refused, 0)
        ],
        "first come, first served, and what fits is granted"
    );
    assert_eq!(replies[0].reconciled, Some(Reconciled::Created));
    assert!(replies[1..].iter().all(|reply| reply.reconciled.is_none()), "it is told once");
    for reply in &replies {
        assert_eq!((reply.now_ms, reply.reset_after_ms), (replies[0].now_ms, 500), "one instant");
        let wait = if reply.outcome == ExceedsCapacity { 0 } else { 500 };
        assert_eq!(reply.retry_after_ms, wait, "until it could be granted again: {reply:?}");
    }
    time.pass(500).await;
    let replies = limiter.acquire_all(&[4, 3]).await;
    assert_eq!(replies[0].outcome, Granted, "when the wait is over");
    assert_eq!(replies[0].retry_after_ms, 500, "3 are left of 4");
    assert_eq!((replies[1].remaining, replies[1].retry_after_ms), (3, 0), "and 3 could go again");
    assert_eq!(limiter.acquire(4).await.outcome, Refused);
    assert_eq!(limiter.release(u32::MAX).await, 7, "what was granted together is one use");
}

async fn refuses_what_a_full_window_has_not<S: Store>(limiter: &Process<'_, S>) {
    assert_eq!(limiter.acquire(6).await.outcome, Outcome::ExceedsCapacity, "6 of 5");
    assert_eq!(limiter.acquire(5).await.outcome, Outcome::Granted, "it took nothing");
}

async fn peeks_without_taking<S: Store>(limiter: &Process<'_, S>) {
    for _ in 0..3 {
        let reply = limiter.peek(1).await;
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 2), "a look takes nothing");
    }
    limiter.acquire(2).await;
    let reply = limiter.peek(1).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Refused, 0), "a look sees what is used");
    assert!((1..=500).contains(&reply.retry_after_ms), "and when to come back: {reply:?}");
}

async fn never_refills_on_a_restart<S: Store>(before: &Process<'_, S>, after: &Process<'_, S>) {
    let reply = before.first(4, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Created), "nothing was stored");
    let reply = after.first(1, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Unchanged), "equal numbers");
    assert_eq!(reply.outcome, Outcome::Refused, "a restart refills nothing");
}

async fn resets_once_and_follows<S: Store>(old: &Process<'_, S>, new: &Process<'_, S>) {
    old.first(2, OnDrift::Reset).await;
    let reply = new.first(1, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Reset), "the newer configuration wins");
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 3), "with a full window");
    for reply in [old.acquire(1).await, old.first(1, OnDrift::Reset).await] {
        assert_eq!(reply.reconciled, Some(Reconciled::Followed), "the older one follows");
        assert_eq!(reply.config.rate, 4, "and is told the numbers in force");
    }
    let reply = new.acquire(1).await;
    assert_eq!((reply.reconciled, reply.remaining), (None, 0), "nobody resets in turn");
}

async fn carries_what_was_used<S: Store>(old: &Process<'_, S>, new: &Process<'_, S>) {
    old.first(9, OnDrift::Carry).await;
    let reply = new.first(1, OnDrift::Carry).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Carried), "what was used still counts");
    assert_eq!((reply.outcome, reply.config.rate), (Outcome::Refused, 6), "9 are used of 6");
}

async fn puts_revisions_before_starts<S: Store>(newer: &Process<'_, S>, later: &Process<'_, S>) {
    newer.first(1, OnDrift::Reset).await;
    let reply = later.first(1, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Followed), "a lower revision started later");
    assert_eq!(reply.config.rate, 4, "follows the greater one");
}

async fn leaves_per_client_to_the_process<S: Store>(
    overall: &Process<'_, S>,
    per_client: &Process<'_, S>,
) {
    overall.first(2, OnDrift::Carry).await;
    let request = per_client.request(1, Assertion::First(OnDrift::Carry));
    let reply = per_client.store.assert(&request).await.expect("the store answers");
    assert_eq!(reply.reconciled, Some(Reconciled::Carried), "the mode changes like any number");
    assert_eq!(reply.config.mode, Mode::PerClient, "to the newer one");
    let reply = overall.acquire(1).await;
    assert_eq!(reply.outcome, Outcome::PerClient, "the store does not count it any more");
}

async fn gives_the_oldest_permits_back<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    assert_eq!(limiter.release(3).await, 0, "nobody configured it yet");
    limiter.acquire(4).await;
    time.pass(100).await;
    limiter.acquire(6).await;
    assert_eq!(limiter.release(5).await, 5, "as many as asked for");
    assert_eq!(limiter.peek(1).await.remaining, 5, "they are free");
    limiter.acquire(5).await;
    let refused = limiter.acquire(1).await;
    assert!(refused.retry_after_ms > 300, "the youngest ones are still in use: {refused:?}");
    assert_eq!(limiter.release(u32::MAX).await, 10, "no more than are in use");
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "and no more than the rate");
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Refused, "can be taken again");
}

async fn writes_quotas_on_purpose<S: Store>(limiter: &Process<'_, S>) {
    assert!(
        !limiter.write(5, WriteWhen::Present, KeepState::Keep).await,
        "there is none to update"
    );
    assert!(limiter.write(5, WriteWhen::Absent, KeepState::Reset).await, "none was stored");
    assert!(!limiter.write(9, WriteWhen::Absent, KeepState::Reset).await, "one is stored");
    let reply = limiter.acquire(4).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Followed), "a running process follows");
    assert_eq!((reply.config.rate, reply.remaining), (5, 1), "what was written");
    assert!(limiter.write(3, WriteWhen::Present, KeepState::Keep).await);
    let reply = limiter.acquire(1).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Refused, 0), "4 are used of 3");
    assert!(limiter.write(3, WriteWhen::Always, KeepState::Reset).await);
    assert_eq!(limiter.acquire(3).await.outcome, Outcome::Granted, "what was used is forgotten");
    let reply = limiter.first(1, OnDrift::Carry).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Carried), "a starting process states its own");
}

async fn follows_what_is_stored<S: Store>(owner: &Process<'_, S>) {
    let follow = owner.request(1, Assertion::Follow { first: true });
    let reply = owner.store.acquire(&follow).await.expect("the store answers");
    assert_eq!(reply.outcome, Outcome::Unknown, "nobody configured it");
    owner.acquire(1).await;
    let reply = owner.store.acquire(&follow).await.expect("the store answers");
    assert_eq!((reply.outcome, reply.config.rate), (Outcome::Granted, owner.config.rate));
}

async fn expires_and_is_deleted<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let (store, keys) = (limiter.store, limiter.keys);
    let answers = "the store answers";
    assert!(
        !store.expire(keys, Expiry::At(50)).await.expect(answers),
        "there is nothing to expire"
    );
    limiter.acquire(2).await;
    assert_eq!(store.ttl(keys).await.expect(answers), None, "it does not expire by itself");
    assert!(store.expire(keys, Expiry::At(60_000)).await.expect(answers));
    let ttl = store.ttl(keys).await.expect(answers).expect("it expires");
    assert!(ttl > Duration::from_secs(50) && ttl <= Duration::from_secs(60), "{ttl:?}");
    assert!(store.expire(keys, Expiry::Cleared).await.expect(answers));
    assert_eq!(store.ttl(keys).await.expect(answers), None);
    assert!(store.expire(keys, Expiry::At(50)).await.expect(answers));
    time.pass(60).await;
    assert_eq!(store.read(keys).await.expect(answers), None, "it expired");
    assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted, "with what was used");

    assert!(store.expire(keys, Expiry::Idle(200)).await.expect(answers));
    for _ in 0..3 {
        time.pass(130).await;
        assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted);
        let config = store.read(keys).await.expect(answers).expect("use keeps it alive");
        assert_eq!(config.keep_alive_ms, 200);
    }
    time.pass(260).await;
    assert_eq!(store.read(keys).await.expect(answers), None, "idleness does not");

    limiter.acquire(2).await;
    assert!(store.delete(keys).await.expect(answers), "there is something to delete");
    assert!(!store.delete(keys).await.expect(answers), "once");
    assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted, "with what was used");
}

async fn keeps_limiters_apart<S: Store>(one: &Process<'_, S>, other: &Process<'_, S>) {
    assert_eq!(one.acquire(1).await.outcome, Outcome::Granted, "a fresh limiter");
    assert_eq!(other.acquire(1).await.outcome, Outcome::Granted, "another name is another limiter");
    assert_eq!(one.acquire(1).await.outcome, Outcome::Refused, "each counts its own");
}
