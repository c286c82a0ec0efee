//! Rejections as HTTP: status and headers, shared by all frameworks.

#[cfg(feature = "axum")]
mod axum;

use std::time::Duration;

use crate::{Reason, Rejection};

/// The status a rejection answers with: 429 when a limit refused, 503 when the store is the
/// reason, 500 when the service itself is set up wrongly.
fn status(reason: Reason) -> u16 {
    match reason {
        Reason::StoreUnavailable | Reason::StoreMisconfigured | Reason::QueueFull => 503,
        Reason::NotConfigured => 500,
        _ => 429,
    }
}

/// The value of `Retry-After`: whole seconds, rounded up, at least 1; RFC 9110 section 10.2.3.
/// Nothing when retrying does not help.
fn retry_after(rejection: &Rejection) -> Option<u64> {
    let wait = match rejection.reason() {
        Reason::StoreUnavailable | Reason::QueueFull => {
            rejection.retry_after().unwrap_or(Duration::from_secs(1))
        }
        _ => rejection.retry_after()?,
    };
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Some(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wait_is_told_in_whole_seconds_rounded_up() {
        let limiter: Arc<str> = "l".into();
        for (ms, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_001, 60)] {
            let wait = Some(Duration::from_millis(ms));
            let rejection = Rejection::new(&limiter, Reason::Limited).retry_after_some(wait);
            assert_eq!(retry_after(&rejection), Some(seconds), "{ms} ms");
        }
        let never = Rejection::new(&limiter, Reason::ExceedsCapacity);
        assert_eq!(retry_after(&never), None);
    }
}
