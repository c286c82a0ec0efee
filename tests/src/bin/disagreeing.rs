//! A program with annotations that contradict each other, for the test of its errors. The keys that can
//! render the same name represent keys of two crates, because the attribute rejects them within one.

use ratelimit_runtime::__private::{Annotation, CallSite, submit};
use ratelimit_runtime::{Limits, Rejection, SetupError, rate_limit};

#[rate_limit(key = "shared", rate = 1, per = "1s")]
async fn one() {}

#[rate_limit(key = "shared", rate = 2, per = "1s")]
async fn other() {}

#[rate_limit(key = "outage", rate = 1, per = "1s", wait = "none", on_store_error = "allow")]
async fn in_time() -> Result<(), Rejection> {
    Ok(())
}

// How long calls wait may differ.
#[rate_limit(key = "outage", rate = 1, per = "1s", wait = "5s", on_store_error = "local")]
async fn late() -> Result<(), Rejection> {
    Ok(())
}

static USER: CallSite =
    registered("overlap:{user_id}", "tests/src/overlapping.rs:3 overlapping", 2);
static OTHER: CallSite =
    registered("overlap:{other}", "tests/src/overlapping.rs:4 overlapping", 50);
static FIXED: CallSite = registered("overlap:5", "tests/src/overlapping.rs:5 overlapping", 7);
// Two call sites may have the same key with the same configuration.
static AGAIN: CallSite =
    registered("overlap:{user_id}", "tests/src/overlapping.rs:6 overlapping", 2);

submit! { &USER.annotation }
submit! { &OTHER.annotation }
submit! { &FIXED.annotation }
submit! { &AGAIN.annotation }

const fn registered(key: &'static str, at: &'static str, rate: u32) -> CallSite {
    CallSite::new(Annotation { key, at, rate, per_ms: 60_000, fallible: true, ..Annotation::NONE })
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    let _ = (one(), other(), in_time(), late());
    Limits::builder().memory().build().await?;
    Ok(())
}
