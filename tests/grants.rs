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

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits};
use tests::place::{now, window_begins};

const SECOND: Duration = Duration::from_secs(1);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.expect("the store answers")
}

/// Waits for the next minute unless this one lasts that much longer, by the store's clock: its end would
/// give back the permits of a fixed window.
async fn minute_lasts(limits: &Limits, ms: u64) {
    const MINUTE_MS: u64 = 60_000;
    if MINUTE_MS - now(limits).await % MINUTE_MS < ms {
        window_begins(limits, MINUTE_MS).await;
    }
}
