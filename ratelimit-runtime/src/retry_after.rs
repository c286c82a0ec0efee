//! `Retry-After`, as upstreams and services write it.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap,
    header::{DATE, HeaderValue, RETRY_AFTER},
};

/// Reads the wait that a response asks for: seconds, or a date on the clock of the response. `None` if it is malformed.
pub(crate) fn read(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Option<Duration> {
    let date = |value: &HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let value = headers.get(RETRY_AFTER)?;
    let digits = value
        .to_str()
        .ok()
        .map(str::trim)
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    // A number that is too large is longer than any pause.
    let seconds = digits.map(|digits| digits.parse().unwrap_or(u64::MAX));
    seconds.map(Duration::from_secs).or_else(|| {
        let until = date(value)?;
        let now = headers.get(DATE).and_then(date).unwrap_or_else(now);
        Some(until.duration_since(now).unwrap_or_default())
    })
}
