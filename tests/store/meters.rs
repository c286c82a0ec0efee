//! What is particular to the rules that know no single grant.

use ratelimit_runtime::__private::store::{
    Algorithm, Calendar, CalendarUnit, Outcome, Rule, StateKeys, Store,
};
use tokio::time::Instant;

use super::{Process, Time, config};

const DAY_MS: u64 = 86_400_000;

/// Keeps what goes beyond the promises of every rule.
pub(super) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let since = Instant::now();
    let process = |name: &str, config| {
        let keys = StateKeys::new(format!("{prefix}{name}"));
        Process { store, keys, config, revision: 0, since }
    };
    let saves = config(Algorithm::TokenBucket, 2, 200);
    let saves = saves.rule(Rule::TokenBucket { burst: 6 });
    a_token_bucket_saves_up_to_its_burst(&process("saves", saves), time).await;
    let aligned = config(Algorithm::FixedWindow, 3, 400);
    a_fixed_window_ends_on_time(&process("aligned", aligned), time).await;
    for (name, unit, zone, length, past) in [
        ("by-day", CalendarUnit::Day, "UTC", DAY_MS, 0),
        // A quarter to six hours ahead, so that its hours begin at a quarter past.
        ("by-hour", CalendarUnit::Hour, "Asia/Kathmandu", DAY_MS / 24, DAY_MS / 96),
    ] {
        let zone = zone.parse().expect("there is such a zone");
        let config = config(Algorithm::FixedWindow, 5, length).by_calendar(Calendar { unit, zone });
        a_calendar_says_when_a_window_ends(&process(name, config), past).await;
    }
    let spaces = config(Algorithm::LeakyBucket, 5, 1000);
    a_leaky_bucket_spaces_costs(&process("spaces", spaces), time).await;
}

async fn a_token_bucket_saves_up_to_its_burst<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let reply = limiter.acquire(7).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::ExceedsCapacity, 6), "7 of 6");
    let reply = limiter.acquire(6).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 0), "a burst at once");
    assert_eq!(reply.reset_after_ms, 600, "it refills at the rate");
    time.pass(220).await;
    assert!(limiter.peek(1).await.remaining >= 2, "a window later a rate is there");
    time.pass(900).await;
    assert_eq!(limiter.peek(1).await.remaining, 6, "and never more than a burst");
}

async fn a_fixed_window_ends_on_time<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let reply = limiter.acquire(3).await;
    assert_eq!(reply.outcome, Outcome::Granted, "a whole window at once");
    let end = reply.now_ms + reply.reset_after_ms;
    assert_eq!(end % 400, 0, "windows follow each other since the epoch");
    time.pass(reply.reset_after_ms).await;
    let reply = limiter.acquire(3).await;
    assert_eq!(reply.outcome, Outcome::Granted, "at its end all of it is free again");
}

async fn a_calendar_says_when_a_window_ends<S: Store>(limiter: &Process<'_, S>, past: u64) {
    let reply = limiter.acquire(3).await;
    assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, 2), "of this window");
    let end = reply.now_ms + reply.reset_after_ms;
    assert_eq!(end % limiter.config.per_ms, past, "by the clocks of the zone");
    let reply = limiter.acquire(3).await;
    assert_eq!(reply.outcome, Outcome::Refused, "the rest is not enough");
    assert_eq!(reply.now_ms + reply.retry_after_ms, end, "it is told when the next one begins");
    assert_eq!(limiter.release(1).await, 1, "what was taken can be given back");
    assert_eq!(limiter.peek(1).await.remaining, 3, "to this window");
}

async fn a_leaky_bucket_spaces_costs<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    let reply = limiter.acquire(2).await;
    assert_eq!(reply.outcome, Outcome::Granted, "an empty one takes any cost");
    assert_eq!((reply.remaining, reply.retry_after_ms), (0, 400), "two slots, one after the other");
    let reply = limiter.acquire(1).await;
    assert_eq!(reply.outcome, Outcome::Refused, "nothing before they are over");
    time.pass(reply.retry_after_ms).await;
    let reply = limiter.acquire(1).await;
    assert_eq!((reply.outcome, reply.retry_after_ms), (Outcome::Granted, 200), "then the next");
}
