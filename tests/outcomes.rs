//! What an annotated call does with its permits, and what it reports: `bind`, `refund_on`, `refund_if`, `actual`,
//! fallbacks as closures, `observe`.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::pedantic)]

#[path = "outcomes/bind.rs"]
mod bind;
#[path = "outcomes/closures.rs"]
mod closures;
#[path = "outcomes/costs.rs"]
mod costs;
#[path = "outcomes/observe.rs"]
mod observe;

use std::future::Future;

use ratelimit_runtime::{Limiter, Limits, LimitsBuilder, Reason, Rejection};

fn embedded() -> LimitsBuilder {
    Limits::builder().memory().no_limits_file()
}

/// Runs code with limits that no other test uses.
async fn alone<T>(code: impl Future<Output = T>) -> T {
    let limits = embedded().build().await.expect("limits in memory");
    limits.scope(code).await
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.expect("the store answers")
}

fn rejected<T>(outcome: Result<T, Rejection>) -> Option<Reason> {
    outcome.err().map(|rejection| rejection.reason())
}
