//! Annotated functions of every shape, run on the embedded store and seen to be limited.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::pedantic)]

#[path = "macros/arguments.rs"]
mod arguments;
#[path = "macros/keys.rs"]
mod keys;
#[path = "macros/methods.rs"]
mod methods;
#[path = "macros/names.rs"]
mod names;
#[path = "macros/settled.rs"]
mod settled;
#[path = "macros/shapes.rs"]
mod shapes;

use std::future::Future;

use ratelimit_runtime::{Limits, Reason, Rejection};

/// Limits that nobody else uses.
async fn limits() -> Limits {
    Limits::builder().memory().no_limits_file().build().await.expect("limits in memory")
}

/// Runs code with limits that nobody else uses.
async fn alone<T>(code: impl Future<Output = T>) -> T {
    limits().await.scope(code).await
}

/// What a call came to.
fn refused<T>(outcome: Result<T, Rejection>) -> Option<Reason> {
    outcome.err().map(|rejection| rejection.reason())
}
