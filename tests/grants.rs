//! What becomes of permits: given back, settled, owed, and counted by new rates.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "grants/debts.rs"]
mod debts;
#[path = "grants/permits.rs"]
mod permits;
#[path = "grants/rates.rs"]
mod rates;
#[path = "grants/refunds.rs"]
mod refunds;
#[path = "grants/together.rs"]
mod together;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use ratelimit_runtime::{Limiter, Limits};

const SECOND: Duration = Duration::from_secs(1);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.expect("the store answers")
}

/// Polls a future once, and drops it.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for what happens off the caller's path.
async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if check().await {
            return;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("{what}: not within 5 s");
}

/// Waits until a window of this length has just begun, by the store's clock.
async fn window_begins(limits: &Limits, per: Duration) {
    let quota = ratelimit_runtime::Quota::new(1_000_000, SECOND).unwrap();
    let now = tests::place::at(&limits.limiter("clock", quota).acquire(1).await.unwrap());
    let per = u64::try_from(per.as_millis()).unwrap();
    tokio::time::sleep(ms(per - now % per + 1)).await;
}
