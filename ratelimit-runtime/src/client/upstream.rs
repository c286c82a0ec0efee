//! The pause that an upstream requests.

use std::time::{Duration, UNIX_EPOCH};

use http::{
    HeaderMap, Response, StatusCode,
    header::{HeaderName, HeaderValue},
};
use sfv::{BareItem, Item, List, ListEntry, Parser};

#[cfg(feature = "tonic")]
use crate::web::retry_info;
use crate::{rejection::is_rejected, retry_after};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// A response whose status and headers can be read.
#[diagnostic::on_unimplemented(
    message = "`Throttle` cannot read the responses of this service, which are `{Self}`",
    note = "it reads `http::Response<B>` and, with the feature `reqwest`, `reqwest::Response`"
)]
pub trait Answered {
    #[doc(hidden)]
    fn head(&self) -> (StatusCode, &HeaderMap);
}

impl<B> Answered for Response<B> {
    fn head(&self) -> (StatusCode, &HeaderMap) {
        (self.status(), self.headers())
    }
}

#[cfg(feature = "reqwest")]
impl Answered for reqwest::Response {
    fn head(&self) -> (StatusCode, &HeaderMap) {
        (self.status(), self.headers())
    }
}

/// Returns the pause that a response requests. `Retry-After` and `RetryInfo` take precedence over `RateLimit`, as
/// in the latter's draft; malformed headers are ignored.
pub(super) fn pause(answer: &impl Answered, now_ms: u64) -> Option<Duration> {
    let (status, headers) = answer.head();
    let now = || UNIX_EPOCH + Duration::from_millis(now_ms);
    let asked = is_rejected(status, headers).then(|| retry_after::read(headers, now)).flatten();
    // The status of a gRPC method knows the limit that rejected it; the service around it may know more of them.
    let pause = asked.max(retry_info(headers)).or_else(|| used_up(headers))?;
    (pause > Duration::ZERO).then_some(pause)
}

/// Reads `RateLimit`: the longest time for which a limit has no permits.
fn used_up(headers: &HeaderMap) -> Option<Duration> {
    let integer = |item: &Item, name: &str| match item.params.get(name) {
        Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    };
    let of_line = |line: &HeaderValue| Parser::new(line.as_bytes()).parse::<List>().ok();
    let lists = headers.get_all(RATE_LIMIT).iter().filter_map(of_line);
    let empty = lists.flatten().filter_map(|entry| match entry {
        ListEntry::Item(item) if integer(&item, "r") == Some(0) => integer(&item, "t"),
        _ => None,
    });
    empty.max().map(Duration::from_secs)
}

#[cfg(not(feature = "tonic"))]
fn retry_info(_: &HeaderMap) -> Option<Duration> {
    None
}
