//! A decision in the headers of a response.

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use sfv::{KeyRef, ListSerializer, StringRef};
use std::{
    borrow::Cow,
    cell::RefCell,
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

use crate::{CalendarUnit, Decision, Quota, Reason, Rejection, clock::wall_time, retry_after};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The usual size in bytes of a header for one or two limits.
const USUAL: usize = 96;

/// The headers that describe limits.
pub(crate) const DESCRIBING: [HeaderName; 5] = [POLICY, LIMIT, X_LIMIT, X_REMAINING, X_RESET];

/// The maximum number of written policies of one limit that a thread caches.
const MOST_WRITTEN: usize = 8;

thread_local! {
    static WRITTEN: RefCell<Vec<Written>> = const { RefCell::new(Vec::new()) };
}

/// The `RateLimit-Policy` of one limit.
struct Written {
    name: String,
    quota: Quota,
    value: HeaderValue,
}

/// The headers of a response that describe the limits of a request.
///
/// `Retry-After` is written in any case to a rejected request that is worth repeating: in whole
/// seconds, rounded up, and at least 1. Limits that admitted the request with their last permit count too: the request is
/// not repeated before each of them has another one. A later `Retry-After` of the service's own stays, in seconds or as a
/// date. With the feature `tonic`, a `RetryInfo` of a rejected gRPC method that names an earlier time is replaced.
///
/// With the feature `tower` it is a layer, and with `actix` a middleware, which adds the headers to
/// the responses of annotated handlers.
///
/// If several layers serve a request, the outermost one chooses the headers for all limits of the request.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Quota, web::{self, Headers}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let search = limits.limiter("search", Quota::per_minute(30));
/// search.try_acquire(28).await?;
/// let rejection = search.try_acquire(5).await.unwrap_err();
///
/// let response = web::response(&rejection, Headers::XRateLimit);
/// assert_eq!(response.headers()["x-ratelimit-limit"], "30");
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "2");
///
/// let response = web::response(&rejection, Headers::Off);
/// assert!(response.headers().contains_key("retry-after"));
/// assert!(!response.headers().contains_key("x-ratelimit-limit"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit-Policy` and `RateLimit` of the newest IETF draft, at present
    /// [draft-ietf-httpapi-ratelimit-headers-11][draft]. A minor release may follow a newer draft.
    ///
    /// The name of a limit is its template; if the key has several limits, it is followed by the quota:
    /// `search:{ip}: 10 per 1s`. `q` is the rate and `w` the window in seconds, which is left out if it is not a whole number of
    /// seconds. `r` is the number of permits that remain, and `t` the time until there are more, rounded up to seconds.
    /// Both are those of the decision, adjusted by the permits that were refunded or charged to the request before its
    /// response began; those of a leaky bucket, and of one that warms up, are not adjusted. `t` does not include the time to
    /// pay a debt of the request. A token bucket can have more permits left than its rate. A response has no
    /// `RateLimit` if nothing was counted: the request costs 0 permits, or more than the limit ever grants, or is
    /// rejected because other requests wait already. There is none while the store is unavailable either, because a
    /// process then knows only its own calls, nor for a limiter in shadow mode, because clients would wait for its permits.
    ///
    /// [draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/11/
    #[default]
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` of the strictest limit that is enforced.
    /// The first is the most that can remain: the rate, or the burst of a token bucket. The last is the time at which
    /// the whole quota is free again, in seconds since the Unix epoch; of a token bucket, adjusted like `r`.
    XRateLimit,
    /// Only `Retry-After`.
    Off,
}

/// The content of the headers: the decision of the limits, and the rejection if there was one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported<'a> {
    pub(crate) decision: Option<&'a Decision>,
    pub(crate) rejection: Option<&'a Rejection>,
}

impl<'a> Reported<'a> {
    pub(crate) fn rejected(rejection: &'a Rejection) -> Self {
        Self { decision: rejection.limits(), rejection: Some(rejection) }
    }
}

impl Headers {
    /// Replaces the rate limit headers by these, and adds the `Retry-After` of a rejection unless there
    /// is a later one.
    pub(crate) fn write(self, reported: Reported<'_>, headers: &mut HeaderMap) {
        for name in DESCRIBING {
            headers.remove(name);
        }
        match self {
            Self::Ietf => write_ietf(reported, headers),
            Self::XRateLimit => write_x_rate_limit(reported, headers),
            Self::Off => {}
        }
        if let Some(seconds) = reported.rejection.and_then(retry_after) {
            let used_up = used_up(reported);
            #[cfg(feature = "tonic")]
            super::retry_info::retry_not_before(used_up, headers);
            let seconds = seconds.max(whole_seconds(used_up));
            let own = retry_after::read(headers, wall_time);
            if own.is_none_or(|own| own < Duration::from_secs(seconds)) {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
    }
}

/// Returns the value of `Retry-After`: whole seconds, rounded up, at least 1; RFC 9110 section
/// 10.2.3. `None` if retrying does not help.
fn retry_after(rejection: &Rejection) -> Option<u64> {
    let wait = match rejection.reason() {
        Reason::StoreUnavailable | Reason::QueueFull => {
            rejection.retry_after().unwrap_or(Duration::from_secs(1))
        }
        _ => rejection.retry_after()?,
    };
    Some(whole_seconds(wait).max(1))
}

/// Returns the time for which a limit that admitted the request has nothing left for the next one.
fn used_up(reported: Reported<'_>) -> Duration {
    let parts = reported.decision.map(Decision::parts).unwrap_or_default();
    let admitted = parts.iter().filter(|part| is_reported(part) && part.retry_after().is_none());
    let used_up = admitted.filter(|part| part.remaining() == 0);
    used_up.map(|part| part.more_after).max().unwrap_or_default()
}

fn write_ietf(reported: Reported<'_>, headers: &mut HeaderMap) {
    let parts = reported.decision.map(Decision::parts).unwrap_or_default();
    let decided = of_decision(parts);
    let mut buffer = String::with_capacity(USUAL);
    let mut limits = ListSerializer::with_buffer(&mut buffer);
    for (part, policy) in decided.iter().filter(|(part, _)| is_reported(part)) {
        let item = limits.bare_item(policy.name());
        let item = item.parameter(key("r"), integer(part.remaining()));
        if part.more_after > Duration::ZERO {
            let _ = item.parameter(key("t"), integer(whole_seconds(part.more_after)));
        }
    }
    if let Some(value) = limits.finish().and_then(|limits| HeaderValue::from_str(limits).ok()) {
        headers.insert(LIMIT, value);
    }
    let mut policies: Vec<_> = decided.into_iter().map(|(_, policy)| policy).collect();
    // In the same order in every response, regardless of which limit is the strictest now.
    policies
        .sort_by(|one, other| (one.quota.per(), &one.name).cmp(&(other.quota.per(), &other.name)));
    if let Some(value) = policy(&policies) {
        headers.insert(POLICY, value);
    }
}

/// Returns the `RateLimit-Policy` value. Most responses of a program have one of a few, which each thread caches.
fn policy(policies: &[Policy<'_>]) -> Option<HeaderValue> {
    let [Policy { name, quota }] = policies else { return written(policies) };
    let is_this = |known: &&Written| known.quota == *quota && known.name == **name;
    let known = |all: &Vec<Written>| Some(all.iter().find(is_this)?.value.clone());
    WRITTEN.with_borrow(known).or_else(|| {
        let value = written(policies)?;
        let own = Written { name: name.to_string(), quota: *quota, value: value.clone() };
        WRITTEN.with_borrow_mut(|all| {
            all.truncate(MOST_WRITTEN - 1);
            all.insert(0, own);
        });
        Some(value)
    })
}

fn written(policies: &[Policy<'_>]) -> Option<HeaderValue> {
    let mut list = ListSerializer::new();
    for policy in policies {
        let item = list.bare_item(policy.name());
        let item = item.parameter(key("q"), integer(policy.quota.rate()));
        if let Some(window) = window(&policy.quota) {
            let _ = item.parameter(key("w"), integer(window));
        }
    }
    HeaderValue::try_from(list.finish()?).ok()
}

fn write_x_rate_limit(reported: Reported<'_>, headers: &mut HeaderMap) {
    let parts = reported.decision.map(Decision::parts).unwrap_or_default();
    let Some(strictest) = parts.iter().find(|part| !part.shadow).or(parts.first()) else {
        return;
    };
    let Some(quota) = strictest.quota() else { return };
    headers.insert(X_LIMIT, HeaderValue::from(quota.burst().unwrap_or(quota.rate())));
    if is_reported(strictest) {
        headers.insert(X_REMAINING, HeaderValue::from(strictest.remaining()));
        let reset = strictest.at().duration_since(UNIX_EPOCH).unwrap_or_default();
        let reset = whole_seconds(reset + strictest.reset_after());
        headers.insert(X_RESET, HeaderValue::from(reset));
    }
}

/// Returns whether the remaining permits are reliable: reported by a store, for an enforced limit.
/// While the store is unavailable, each process knows only its own calls.
fn is_reported(part: &Decision) -> bool {
    part.counted && part.quota().is_some() && !part.shadow && !part.is_degraded()
}

/// One limit as described to clients.
pub(crate) struct Policy<'a> {
    name: Cow<'a, str>,
    quota: Quota,
}

impl<'a> Policy<'a> {
    /// Describes a limit among the `parts` of a decision. Its name is the limiter's template, plus the quota if the key
    /// has several limits.
    fn new(limiter: &'a str, quota: Quota, parts: &[Decision]) -> Self {
        let is_several = parts.iter().filter(|part| part.limiter() == limiter).count() > 1;
        let mut name = printable(limiter);
        if is_several {
            name = format!("{name}: {}", printable(&quota.to_string())).into();
        }
        Self { name, quota }
    }

    fn name(&self) -> &StringRef {
        StringRef::from_str(&self.name).unwrap_or_else(|_| StringRef::constant("limit"))
    }

    pub(crate) fn into_name(self) -> String {
        self.name.into_owned()
    }
}

/// Returns the policy of each limit that is not disabled.
fn of_decision(parts: &[Decision]) -> Vec<(&Decision, Policy<'_>)> {
    let limits = parts.iter().filter_map(|part| Some((part, part.quota()?)));
    limits.map(|(part, quota)| (part, Policy::new(part.limiter(), quota, parts))).collect()
}

/// Returns the limits that rejected a call.
pub(crate) fn of_rejection(rejection: &Rejection) -> Vec<Policy<'_>> {
    let parts = rejection.limits().map(Decision::parts).unwrap_or_default();
    let policy = |quota: &Quota| Policy::new(rejection.limiter(), *quota, parts);
    rejection.violated().iter().map(policy).collect()
}

/// Replaces bytes other than printable ASCII, which a structured field cannot hold, by `%XX`.
fn printable(text: &str) -> Cow<'_, str> {
    let is_printable = |byte: &u8| (0x20..0x7f).contains(byte);
    if text.as_bytes().iter().all(is_printable) {
        return text.into();
    }
    let mut printable = String::new();
    for byte in text.bytes() {
        if is_printable(&byte) {
            printable.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(printable, "%{byte:02X}");
        }
    }
    printable.into()
}

/// Returns the window in seconds, if it is a whole number of them, the draft's smallest unit.
/// Months have no fixed length.
fn window(quota: &Quota) -> Option<u64> {
    let is_month = quota.calendar_window().is_some_and(|(unit, _)| unit == CalendarUnit::Month);
    let whole = quota.per().subsec_nanos() == 0 && !is_month;
    whole.then(|| quota.per().as_secs())
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn key(name: &'static str) -> &'static KeyRef {
    KeyRef::constant(name)
}

/// A structured field's integer has at most 15 digits.
fn integer(number: u64) -> sfv::Integer {
    sfv::Integer::try_from(number).unwrap_or(sfv::Integer::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wait_is_in_whole_seconds_rounded_up() {
        let limiter: Arc<str> = "l".into();
        for (ms, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_001, 60)] {
            let wait = Some(Duration::from_millis(ms));
            let rejection = Rejection::new(&limiter, Reason::Limited).with_retry_after(wait);
            assert_eq!(retry_after(&rejection), Some(seconds), "{ms} ms");
        }
        let never = Rejection::new(&limiter, Reason::ExceedsCapacity);
        assert_eq!(retry_after(&never), None);
        // A test can make such a rejection.
        let longest =
            Rejection::new(&limiter, Reason::Limited).with_retry_after(Some(Duration::MAX));
        assert_eq!(retry_after(&longest), Some(u64::MAX));
    }
}
