//! HTTP: the client of a request, and rate limits in the response.
//!
//! Available with each of the features `tower`, `axum`, `actix` and `tonic`.
//!
//! - [`ClientIp`] is the address of the client, even behind proxies.
//! - [`Headers`] selects the headers that describe the limits.
//! - [`response`] is the response to a rejected request, for frameworks without a feature here.

#[cfg(feature = "actix")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
mod axum;
mod client_ip;
mod forwarded;
mod headers;
#[cfg(any(feature = "axum", feature = "tower"))]
mod peer;
mod problem;
#[cfg(feature = "tonic")]
mod retry_info;
#[cfg(feature = "tonic")]
mod tonic;

use http::{HeaderValue, Response, header::CONTENT_TYPE};

pub(crate) use self::headers::Reported;
#[cfg(any(feature = "axum", feature = "tower"))]
pub(crate) use self::peer::{peer_of, unknown_peer};
#[cfg(any(feature = "tonic", feature = "tower"))]
pub(crate) use self::problem::title;
#[cfg(all(feature = "client", feature = "tonic"))]
pub(crate) use self::retry_info::retry_info;
pub use self::{client_ip::ClientIp, headers::Headers};
use crate::Rejection;

/// Returns the response to a rejected request: the status, the headers and an RFC 9457 problem as JSON.
///
/// | reason | status | `Retry-After` |
/// |---|---|---|
/// | `Limited`, `WaitTooLong`, `QueueFull`, `Blocked` | 429 | the time until the permits are free, at least 1 s |
/// | `ExceedsCapacity` | 422, and 429 if the limit rejects every call | none, since waiting does not help |
/// | `StoreUnavailable` | 503 | 1 s |
/// | `StoreMisconfigured` | 503 | none |
/// | `NotConfigured` | 500 | none |
///
/// The body names the violated limits by their templates. Neither it nor the headers contain the
/// values of the key, or the reply of the store.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Quota, web};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let limiter = limits.limiter("export", Quota::per_minute(1));
/// limiter.try_acquire(1).await?;
/// let rejection = limiter.try_acquire(1).await.unwrap_err();
///
/// let response = web::response(&rejection, web::Headers::Ietf);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// assert_eq!(response.headers()["ratelimit-policy"], r#""export";q=1;w=60"#);
/// assert_eq!(response.headers()["ratelimit"], r#""export";r=0;t=60"#);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn response(rejection: &Rejection, headers: Headers) -> Response<String> {
    let mut response = Response::new(problem::body(rejection));
    *response.status_mut() = problem::status(rejection);
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    headers.write(Reported::rejected(rejection), response.headers_mut());
    response
}

/// Returns the word of `refund_on` that applies to a response. A failure of the service (5xx) is an `err`. A client
/// error (4xx) is neither `err` nor `ok`, so it always counts: neither bad requests nor wrong passwords are free.
#[cfg(any(feature = "actix", feature = "axum"))]
fn judge(status: http::StatusCode) -> Option<ratelimit_spec::RefundOn> {
    use ratelimit_spec::RefundOn;

    match status {
        status if status.is_server_error() => Some(RefundOn::Err),
        status if status.is_client_error() => None,
        _ => Some(RefundOn::Ok),
    }
}
