//! What is promised of every rule.

use ratelimit_runtime::__private::store::{
    Algorithm, Assertion, Expiry, KeepState, Mode, OnDrift, Outcome, Penalty, Reconciled,
    StateKeys, Store, WriteWhen,
};
use std::time::Duration;
use tests::decide::Decide;
use tokio::time::Instant;

use super::{Process, Time, config};

/// A window that no test sees the end of.
const LONG_MS: u64 = 366 * 86_400_000;

/// When a process starts that does so now.
fn now() -> Instant {
    Instant::from_std(std::time::Instant::now())
}

/// Keeps every promise by one rule.
pub(super) async fn run<S: Store>(store: &S, prefix: &str, algorithm: Algorithm, time: &Time) {
    let base = now();
    let process = |name: &str, rate, start: u64| Process {
        store,
        keys: StateKeys::new(format!("{prefix}{algorithm}:{name}")),
        config: config(algorithm, rate, LONG_MS),
        revision: 0,
        since: base + Duration::from_millis(start),
    };

    let one = "wait";
    let short = Process { config: config(algorithm, 3, 400), ..process(one, 3, 0) };
    names_the_wait(&short, time).await;
    let one = "large";
    refuses_what_is_never_free(&process(one, 5, 0)).await;
    let one = "batch";
    decides_many_in_order_at_once(&process(one, 10, 0)).await;
    let one = "looked";
    peeks_without_taking(&process(one, 2, 0)).await;
    let one = "restart";
    never_refills_on_a_restart(&process(one, 4, 1), &process(one, 4, 2)).await;
    let one = "reset";
    resets_once_and_follows(&process(one, 2, 1), &process(one, 4, 2)).await;
    let one = "carry";
    carries_what_was_used(&process(one, 10, 1), &process(one, 6, 2)).await;
    let one = "revision";
    let newer = Process { revision: 1, ..process(one, 4, 1) };
    puts_revisions_before_starts(&newer, &process(one, 2, 2)).await;
    let one = "mode";
    let per_client = super::per_client(config(algorithm, 2, LONG_MS));
    let per_client = Process { config: per_client, ..process(one, 2, 2) };
    leaves_per_client_to_the_process(&process(one, 2, 1), &per_client).await;
    for (n, other) in super::ALGORITHMS.into_iter().filter(|other| *other != algorithm).enumerate()
    {
        let one = &format!("rule{n}");
        let changed = Process { config: config(other, 6, LONG_MS), ..process(one, 6, 2) };
        carries_what_was_used(&process(one, 10, 1), &changed).await;
        let one = &format!("new-rule{n}");
        let changed = Process { config: config(other, 4, LONG_MS), ..process(one, 4, 2) };
        resets_once_and_follows(&process(one, 2, 1), &changed).await;
    }
    let one = "release";
    gives_back_what_is_in_use(&process(one, 10, 0)).await;
    let one = "write";
    writes_quotas_on_purpose(&process(one, 2, 0)).await;
    let one = "follow";
    follows_what_is_stored(&process(one, 2, 0)).await;
    let one = "expire";
    let for_ever = config(algorithm, 2, 100).keep_alive_ms(0);
    let for_ever = Process { config: for_ever, ..process(one, 2, 0) };
    expires_and_is_deleted(&for_ever, time).await;
    keeps_limiters_apart(&process("a:b", 1, 0), &process("a", 1, 0)).await;
}

async fn names_the_wait<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let mut refused = limiter.acquire(1).await;
    assert_eq!(refused.outcome, Outcome::Granted, "a fresh limiter");
    for _ in 0..100 {
        if refused.outcome == Outcome::Granted {
            refused = limiter.acquire(1).await;
        }
    }
    assert_eq!((refused.outcome, refused.remaining), (Outcome::Refused, 0), "beyond the rate");
    assert!(
        (1..=400).contains(&refused.retry_after_ms),
        "the wait is a window at most: {refused:?}"
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

async fn decides_many_in_order_at_once<S: Store>(limiter: &Process<'_, S>) {
    use Outcome::{ExceedsCapacity, Granted, Refused};
    assert!(limiter.acquire_all(&[]).await.is_empty(), "nothing for nobody");
    let replies = limiter.acquire_all(&[1, 1, 5, 11, 4, 3, 3]).await;
    let told: Vec<_> = replies.iter().map(|reply| (reply.outcome, reply.remaining)).collect();
    let expected = if limiter.spaces() {
        [Granted, Refused, Refused, ExceedsCapacity, Refused, Refused, Refused]
            .map(|outcome| (outcome, if outcome == ExceedsCapacity { 10 } else { 0 }))
    } else {
        [
            (Granted, 9),
            (Granted, 8),
            (Granted, 3),
            (ExceedsCapacity, 10),
            (Refused, 3),
            (Granted, 0),
            (Refused, 0),
        ]
    };
    assert_eq!(told, expected, "first come, first served, and what fits is granted");
    assert_eq!(replies[0].reconciled, Some(Reconciled::Created));
    assert!(replies[1..].iter().all(|reply| reply.reconciled.is_none()), "it is told once");
    for reply in &replies {
        assert_eq!(reply.now_ms, replies[0].now_ms, "one instant");
        assert_eq!(reply.reset_after_ms, replies[0].reset_after_ms, "at the end of the batch");
        let waits = reply.outcome != ExceedsCapacity;
        assert_eq!(reply.retry_after_ms > 0, waits, "until it could be granted again: {reply:?}");
    }
}

async fn refuses_what_is_never_free<S: Store>(limiter: &Process<'_, S>) {
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
    assert!((1..=LONG_MS).contains(&reply.retry_after_ms), "and when to come back: {reply:?}");
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
    let left = if new.spaces() { 0 } else { 3 };
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, left), "with all of it free");
    for reply in [old.acquire(1).await, old.first(1, OnDrift::Reset).await] {
        assert_eq!(reply.reconciled, Some(Reconciled::Followed), "the older one follows");
        assert!(reply.config.same_limit(&new.config), "and is told the numbers in force");
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
    let request = per_client.request(Assertion::First(OnDrift::Carry));
    let reply = per_client.store.assert(&request).await.expect("the store answers");
    assert_eq!(reply.reconciled, Some(Reconciled::Reset), "no mode counts what another one did");
    assert_eq!(reply.config.mode, Mode::PerClient, "to the newer one");
    let reply = overall.acquire(1).await;
    assert_eq!(reply.outcome, Outcome::PerClient, "the store does not count it any more");
    let since = per_client.since + Duration::from_millis(1);
    let next = Process { keys: overall.keys.clone(), since, ..*overall };
    let reply = next.first(2, OnDrift::Carry).await;
    assert_eq!((reply.outcome, reply.reconciled), (Outcome::Granted, Some(Reconciled::Reset)));
}

async fn gives_back_what_is_in_use<S: Store>(limiter: &Process<'_, S>) {
    assert_eq!(limiter.release(3).await, 0, "nobody configured it yet");
    limiter.acquire(4).await;
    assert_eq!(limiter.release(3).await, 3, "as many as asked for");
    assert_eq!(limiter.release(u32::MAX).await, 1, "no more than are in use");
    assert_eq!(limiter.release(1).await, 0, "once");
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "and no more than the rate");
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Refused, "can be taken again");
}

async fn writes_quotas_on_purpose<S: Store>(limiter: &Process<'_, S>) {
    // Processes get older even while tokio's time is paused.
    let later = || std::thread::sleep(Duration::from_millis(100));
    later();
    assert!(
        !limiter.write(5, WriteWhen::Present, KeepState::Keep).await,
        "there is none to update"
    );
    assert!(limiter.write(5, WriteWhen::Absent, KeepState::Reset).await, "none was stored");
    assert!(!limiter.write(9, WriteWhen::Absent, KeepState::Reset).await, "one is stored");
    let reply = limiter.acquire(4).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Followed), "a running process follows");
    let left = if limiter.spaces() { 0 } else { 1 };
    assert_eq!((reply.config.rate, reply.remaining), (5, left), "what was written");
    assert!(limiter.write(3, WriteWhen::Present, KeepState::Keep).await);
    let reply = limiter.acquire(1).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Refused, 0), "4 are used of 3");
    assert!(limiter.write(3, WriteWhen::Always, KeepState::Reset).await);
    assert_eq!(limiter.acquire(3).await.outcome, Outcome::Granted, "what was used is forgotten");
    let reply = limiter.first(1, OnDrift::Reset).await;
    assert_eq!(
        reply.reconciled,
        Some(Reconciled::Followed),
        "it was made after the process started"
    );

    later();
    let younger = limiter.started(now());
    let stored = limiter.store.read(&limiter.keys).await.expect("the store answers");
    assert_eq!(stored.map(|stored| (stored.config.rate, stored.held_for_ms)), Some((3, 0)));
    limiter.hold(3, 60_000).await;
    let stored = limiter.store.read(&limiter.keys).await.expect("the store answers");
    assert!(stored.is_some_and(|stored| (50_000..=60_000).contains(&stored.held_for_ms)));
    let reply = younger.first(1, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Followed), "a change that is held stays");

    assert!(limiter.write(3, WriteWhen::Always, KeepState::Keep).await);
    later();
    let reply = limiter.started(now()).first(1, OnDrift::Reset).await;
    assert_eq!(reply.reconciled, Some(Reconciled::Carried), "a process that started later wins");
    assert_eq!(reply.replaced.map(|config| config.rate), Some(3));
}

async fn follows_what_is_stored<S: Store>(owner: &Process<'_, S>) {
    let follow = owner.request(Assertion::Follow { first: true });
    let reply = owner.store.acquire(&follow, 1).await.expect("the store answers");
    assert_eq!(reply.outcome, Outcome::Unknown, "nobody configured it");
    owner.acquire(1).await;
    let reply = owner.store.acquire(&follow, 1).await.expect("the store answers");
    let outcome = if owner.spaces() { Outcome::Refused } else { Outcome::Granted };
    assert_eq!((reply.outcome, reply.config.rate), (outcome, owner.config.rate));
}

async fn expires_and_is_deleted<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let (store, keys) = (limiter.store, &limiter.keys);
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
    assert!(store.expire(keys, Expiry::At(0)).await.expect(answers));
    assert_eq!(store.read(keys).await.expect(answers), None, "it expired at once");
    assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted, "with what was used");

    assert!(store.expire(keys, Expiry::Idle(600)).await.expect(answers));
    for _ in 0..2 {
        time.pass(350).await;
        assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted);
        let config = store.read(keys).await.expect(answers).expect("use keeps it alive");
        assert_eq!(config.config.keep_alive_ms, 600);
    }
    time.pass(760).await;
    assert_eq!(store.read(keys).await.expect(answers), None, "idleness does not");

    limiter.acquire(2).await;
    assert!(store.delete(keys).await.expect(answers), "there is something to delete");
    assert!(!store.delete(keys).await.expect(answers), "once");
    let block = Duration::from_secs(60);
    let penalty = Penalty { after: 1, block, up_to: block };
    store.penalize(keys, &penalty, LONG_MS).await.expect(answers);
    assert!(store.delete(keys).await.expect(answers), "there is a penalty to delete");
    assert!(!store.delete(keys).await.expect(answers), "once");
    assert_eq!(limiter.acquire(2).await.outcome, Outcome::Granted, "with what was used");
}

async fn keeps_limiters_apart<S: Store>(one: &Process<'_, S>, other: &Process<'_, S>) {
    assert_eq!(one.acquire(1).await.outcome, Outcome::Granted, "a fresh limiter");
    assert_eq!(other.acquire(1).await.outcome, Outcome::Granted, "another name is another limiter");
    assert_eq!(one.acquire(1).await.outcome, Outcome::Refused, "each counts its own");
}
