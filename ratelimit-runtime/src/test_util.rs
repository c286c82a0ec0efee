#![doc = include_str!("guide/links.md")]
#![doc = include_str!("../docs/testing.md")]

use std::{future::Future, panic::Location, sync::Arc, time::Duration};

pub use crate::clock::ManualClock;
use crate::{
    Limiter, Limits, LimitsBuilder, Reason, Rejection, StoreError, StoreErrorKind, store::AnyStore,
};

/// Returns limits on an embedded store of their own, and the clock that they use, which advances
/// only on request. They read neither a limits file nor the environment.
///
/// With a limits file: `Limits::builder().memory().limits_file("ratelimit.yaml").clock(time.clone()).build()`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Rejection, rate_limit, test_util};
///
/// #[rate_limit(key = "hourly-ping", rate = 1, per = "1h", wait = "none")]
/// async fn ping() -> Result<(), Rejection> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (limits, time) = test_util::limits();
/// limits.scope(async {
///     assert!(ping().await.is_ok());
///     assert!(ping().await.is_err());
///     time.advance(Duration::from_secs(3600));
///     assert!(ping().await.is_ok());
/// }).await;
/// # }
/// ```
#[must_use]
pub fn limits() -> (Limits, ManualClock) {
    let time = ManualClock::new();
    (LimitsBuilder::by_hand(time.clone()), time)
}

/// Returns a rejection of a limiter `test`, for tests of code that turns rejections into something else.
///
/// One whose reason is the store has a [`StoreError`] as its source.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Reason, test_util};
///
/// let rejection = test_util::rejection(Reason::Limited, Some(Duration::from_secs(2)));
/// assert_eq!(rejection.to_string(), "rate limit `test` exceeded, retry after 2s");
/// ```
#[must_use]
pub fn rejection(reason: Reason, retry_after: Option<Duration>) -> Rejection {
    let rejection = Rejection::new(&Arc::from("test"), reason).with_retry_after(retry_after);
    match reason {
        Reason::StoreUnavailable => rejection.with_source(&failure(StoreErrorKind::Unavailable)),
        Reason::StoreMisconfigured => {
            rejection.with_source(&failure(StoreErrorKind::Misconfigured))
        }
        _ => rejection,
    }
}

/// Makes the embedded store of these limits fail every call with an error of this kind, or work again with `None`: for
/// tests of `on_store_error` and of 503 responses. It has no effect on Redis.
///
/// Calls of `per_client` limiters are counted by the process, so they are admitted as before.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{OnStoreError, Quota, Reason, Settings, StoreErrorKind, test_util};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (limits, _time) = test_util::limits();
/// let settings = Settings::new(Quota::per_second(5)).on_store_error(OnStoreError::Reject);
/// let payments = limits.limiter("payments", settings);
///
/// test_util::set_store_error(&limits, Some(StoreErrorKind::Timeout));
/// let rejection = payments.try_acquire(1).await.unwrap_err();
/// assert_eq!(rejection.reason(), Reason::StoreUnavailable);
/// assert!(!limits.health().is_ok());
///
/// test_util::set_store_error(&limits, None);
/// assert!(payments.try_acquire(1).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub fn set_store_error(limits: &Limits, kind: Option<StoreErrorKind>) {
    let services = limits.services();
    if let AnyStore::Memory(store) = &services.store {
        store.fail(kind.map(failure));
        // From now on no call is decided without the store.
        let _ = services.limits.renew(|current| Ok((current.renumbered(), ())));
    }
}

fn failure(kind: StoreErrorKind) -> StoreError {
    let why = "the store of a test fails";
    match kind {
        StoreErrorKind::Timeout => StoreError::timeout(why),
        StoreErrorKind::Unavailable => StoreError::unavailable(why),
        StoreErrorKind::Misconfigured => StoreError::misconfigured(why),
    }
}

/// Asserts that a limiter admits exactly this many permits now, and takes them.
///
/// # Panics
///
/// Panics if it rejects one of them, or admits one more; the message names the location of the call.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Quota, test_util::{self, assert_admits}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (limits, time) = test_util::limits();
/// let search = limits.limiter("search", Quota::per_second(5));
/// assert_admits(&search, 5).await;
/// assert_admits(&search, 0).await;
/// time.advance(Duration::from_secs(1));
/// assert_admits(&search, 5).await;
/// # }
/// ```
#[track_caller]
pub fn assert_admits(limiter: &Limiter, permits: u64) -> impl Future<Output = ()> + Send + use<'_> {
    let place = Location::caller();
    async move {
        for admitted in 0..permits {
            if let Err(rejection) = limiter.try_acquire(1).await {
                panic!("{place}: admitted {admitted} of {permits} permits: {rejection}");
            }
        }
        if let Ok(decision) = limiter.peek(1).await {
            let (key, more) = (decision.limiter(), decision.remaining());
            panic!("{place}: rate limit `{key}` admits {permits} permits, and {more} more");
        }
    }
}
