//! What is promised of grants that are given back, and of costs that are known only afterwards.

use ratelimit_runtime::__private::store::{
    Algorithm::{FixedWindow, SlidingWindow, TokenBucket},
    Assertion, Charge, Charged, Grant, KeepState, OnDrift, Outcome, Reconciled, Reply, StateKeys,
    Store, WriteWhen,
};
use tokio::time::Instant;

use super::{ALGORITHMS, Process, Time, config, per_client};

/// A window that no test sees the end of.
const LONG_MS: u64 = 366 * 86_400_000;

/// Keeps the promises of [`Store::give_back`] and [`Store::charge`].
pub(super) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let since = Instant::now();
    for algorithm in ALGORITHMS {
        let process = |name: &str, config| {
            let keys = StateKeys::new(format!("{prefix}{algorithm}:{name}"));
            Process { store, keys, config, revision: 0, since }
        };
        let ten = config(algorithm, 10, LONG_MS);
        gives_back_a_grant_and_no_other(&process("grants", ten)).await;
        let short = config(algorithm, 3, 400);
        gives_back_nothing_of_a_window_that_is_over(&process("over", short), time).await;
        if algorithm == TokenBucket {
            let short = config(algorithm, 3, 2000);
            gives_back_nothing_that_others_took_since(&process("moved", short), time).await;
        }
        owes_what_is_not_free(&process("owes", ten), &process("owes", ten)).await;
        forgets_debts_with_what_is_used(&process("forgiven", ten)).await;
        let short = config(algorithm, 5, 600);
        pays_debts_first(&process("pays", short), time).await;
        for replaced in [false, true] {
            let short = config(algorithm, 10, 400);
            let limiter = process(&format!("paid:{replaced}"), short);
            pays_at_the_rate_of_the_time(&limiter, time, replaced).await;
        }
        let mut nobody = ten;
        nobody.rate = 0;
        admits_nobody_at_a_rate_of_0(&process("nobody", nobody)).await;
        leaves_per_client_to_the_process(&process("per-client", per_client(ten))).await;
    }
}

impl<S: Store> Process<'_, S> {
    async fn granted(&self, permits: u32) -> Grant {
        let reply = self.acquire(permits).await;
        assert_eq!(reply.outcome, Outcome::Granted, "{permits} are free");
        Grant::of(&reply, permits, 0)
    }

    async fn give_back(&self, grant: &Grant) -> u64 {
        self.store.give_back(&self.keys, grant).await.expect("the store answers")
    }

    async fn charge(&self, permits: u32, max_debt: u64) -> (Reply, Charged) {
        let request = self.request(Assertion::Steady);
        self.store
            .charge(&request, Charge::new(permits, Some(max_debt)))
            .await
            .expect("the store answers")
    }
}

async fn gives_back_a_grant_and_no_other<S: Store>(limiter: &Process<'_, S>) {
    let drains = !matches!(limiter.config.rule.algorithm(), SlidingWindow | FixedWindow);
    let first = limiter.granted(3).await;
    if limiter.spaces() {
        let back = limiter.give_back(&first).await;
        assert!((2..=3).contains(&back), "{back}: a slot that began comes back in part");
        return;
    }
    let second = limiter.granted(4).await;
    assert_eq!(limiter.give_back(&second).await, 4, "just what was granted");
    assert_eq!(limiter.peek(1).await.remaining, 7, "the other grant is not touched");
    let back = limiter.give_back(&first).await;
    assert!(back == 3 || (drains && back == 2), "{back}: a bucket drains the first one first");
    if limiter.config.rule.algorithm() == SlidingWindow {
        assert_eq!(limiter.give_back(&first).await, 0, "once");
    }
    let whole = if drains { 9 } else { 10 };
    assert_eq!(limiter.acquire(whole).await.outcome, Outcome::Granted, "all of it is free again");
}

async fn gives_back_nothing_of_a_window_that_is_over<S: Store>(
    limiter: &Process<'_, S>,
    time: &Time,
) {
    let grant = limiter.granted(3).await;
    time.pass(410).await;
    limiter.acquire(2).await;
    assert_eq!(limiter.give_back(&grant).await, 0, "that would be another's");
}

/// What comes back moves what was granted later forward, so that it has drained earlier.
async fn gives_back_nothing_that_others_took_since<S: Store>(
    limiter: &Process<'_, S>,
    time: &Time,
) {
    let first = limiter.granted(2).await;
    let second = limiter.granted(1).await;
    assert_eq!(limiter.give_back(&first).await, 2);
    time.pass(700).await;
    limiter.granted(3).await;
    assert_eq!(limiter.give_back(&second).await, 0, "it has drained");
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Refused);
}

async fn owes_what_is_not_free<S: Store>(limiter: &Process<'_, S>, other: &Process<'_, S>) {
    limiter.granted(1).await;
    let (reply, charged) = limiter.charge(15, 10).await;
    assert_eq!(charged, Charged { taken: 9, debt: 6, excess: 0 }, "what is free is taken");
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 0), "nothing is left");
    assert!(reply.retry_after_ms > 0, "{reply:?}");
    for reply in [other.acquire(1).await, other.peek(1).await] {
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Refused, 0), "every process owes");
    }
    let (_, charged) = other.charge(10, 10).await;
    assert_eq!(charged, Charged { taken: 0, debt: 10, excess: 6 }, "up to a limit");
    assert_eq!(limiter.release(10).await, 10, "what is given back pays what is owed");
    assert_eq!(other.acquire(1).await.outcome, Outcome::Refused, "and no more than that");
    assert_eq!(limiter.release(3).await, 3);
    let left = if limiter.spaces() { 0 } else { 3 };
    assert_eq!(other.peek(1).await.remaining, left, "then what is used");
}

async fn forgets_debts_with_what_is_used<S: Store>(limiter: &Process<'_, S>) {
    limiter.charge(20, 10).await;
    assert!(limiter.write(10, WriteWhen::Always, KeepState::Keep).await);
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Refused, "numbers that keep it");
    assert!(limiter.write(10, WriteWhen::Always, KeepState::Reset).await);
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "numbers that do not");
    limiter.charge(10, 10).await;
    assert!(limiter.store.delete(&limiter.keys).await.expect("the store answers"));
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "nor what is deleted");
}

async fn pays_debts_first<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let (reply, charged) = limiter.charge(8, 5).await;
    assert_eq!((charged.taken, charged.debt), (5, 3));
    let (charged_at, per_ms) = (reply.now_ms, limiter.config.per_ms);
    let mut reply = limiter.acquire(2).await;
    for _ in 0..5 {
        if reply.outcome == Outcome::Refused {
            time.pass(reply.retry_after_ms).await;
            reply = limiter.acquire(2).await;
        }
    }
    assert_eq!(reply.outcome, Outcome::Granted, "it is paid");
    // A fixed window ends earlier than a whole one after the charge.
    let began =
        if limiter.config.rule.algorithm() == FixedWindow { charged_at % per_ms } else { 0 };
    let paid_at = charged_at - began + per_ms;
    assert!(reply.now_ms >= paid_at, "{} < {paid_at}: eight and two of five", reply.now_ms);
}

/// No call sees what the debt took before another process replaces the rate, or it is set on purpose.
async fn pays_at_the_rate_of_the_time<S: Store>(
    limiter: &Process<'_, S>,
    time: &Time,
    replaced: bool,
) {
    let (algorithm, per_ms) = (limiter.config.rule.algorithm(), limiter.config.per_ms);
    let owes_for = async |ms| {
        let (_, charged) = limiter.charge(20, 10).await;
        assert_eq!((charged.taken, charged.debt), (10, 10));
        time.pass(ms).await;
        if replaced {
            let (config, since) = (config(algorithm, 1, per_ms), Instant::now());
            let other = Process { config, since, keys: limiter.keys.clone(), ..*limiter };
            let reply = other.first(1, OnDrift::Carry).await;
            assert_eq!(reply.reconciled, Some(Reconciled::Carried));
            return reply;
        }
        assert!(limiter.write(1, WriteWhen::Always, KeepState::Keep).await);
        limiter.acquire(1).await
    };
    let reply = owes_for(2 * per_ms + 10).await;
    assert_eq!(reply.outcome, Outcome::Granted, "all of it was paid: {reply:?}");
    if matches!(algorithm, SlidingWindow | FixedWindow) {
        limiter.store.delete(&limiter.keys).await.expect("the store answers");
        owes_for(per_ms + 10).await;
        time.pass(per_ms).await;
        let reply = limiter.acquire(1).await;
        assert_eq!(reply.outcome, Outcome::Granted, "all of it was paid by now: {reply:?}");
    }
}

async fn admits_nobody_at_a_rate_of_0<S: Store>(limiter: &Process<'_, S>) {
    let reply = limiter.acquire(1).await;
    assert_eq!(
        (reply.outcome, reply.remaining),
        (Outcome::ExceedsCapacity, 0),
        "whatever it holds"
    );
    let (_, charged) = limiter.charge(2, 10).await;
    assert_eq!(charged, Charged { taken: 0, debt: 0, excess: 2 }, "and nothing is owed");
}

async fn leaves_per_client_to_the_process<S: Store>(limiter: &Process<'_, S>) {
    let (reply, charged) = limiter.charge(20, 10).await;
    assert_eq!((reply.outcome, charged), (Outcome::PerClient, Charged::default()));
}
