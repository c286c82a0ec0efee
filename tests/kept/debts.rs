//! What is owed is paid by every kind of call.

use std::time::Duration;

use ratelimit_runtime::{Limits, Rejection, limiter, rate_limit, test_util::ManualClock};
use tests::redis_server::RedisServer;

use super::calls::{admitted, embedded_at, free, ms, on_redis, owed_after_charge};

/// Two limits in one slot, decided in one step.
#[rate_limit(key = "{{kept}}:debtor", rate = 10, per = "2s", wait = "none")]
#[rate_limit(key = "{{kept}}:other", rate = 10, per = "2s", wait = "none")]
async fn stacked() -> Result<(), Rejection> {
    Ok(())
}

async fn pays_what_is_owed(limits: &Limits, pass: impl AsyncFn(Duration)) {
    let of = |name: &'static str| {
        limits.scope(async move {
            if name == "debtor" { limiter!("{{kept}}:debtor") } else { limiter!("{{kept}}:other") }
        })
    };
    let (debtor, other) = (of("debtor").await, of("other").await);
    assert_eq!(owed_after_charge(&debtor, 14).await, 4);
    assert!(!admitted(limits.scope(stacked()).await), "nothing is free, and 4 are owed");
    assert_eq!(free(&other).await, 10, "what is refused takes nothing");
    pass(ms(2_100)).await;
    assert!(admitted(limits.scope(stacked()).await));
    assert_eq!(free(&debtor).await, 5, "4 that were owed, and 1");
    assert_eq!(free(&other).await, 9);
}

#[tokio::test]
async fn a_call_with_stacked_limits_of_one_slot_pays_a_debt() {
    // Such a call was decided past the debt, which was never paid then.
    let clock = ManualClock::new();
    let limits = embedded_at(&clock, "{}").await;
    pays_what_is_owed(&limits, async |time| clock.advance(time)).await;
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    pays_what_is_owed(&limits, tokio::time::sleep).await;
}
