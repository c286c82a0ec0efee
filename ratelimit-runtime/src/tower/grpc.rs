//! Answers to gRPC requests, which have no statuses but their own.

use http::{HeaderMap, HeaderName, HeaderValue, Response, header::CONTENT_TYPE};

use super::body::LimitBody;
use crate::{
    Reason, Rejection,
    web::{Headers, Told, title},
};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Whether a request is a gRPC call.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let of = |value: &HeaderValue| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
    };
    headers.get(CONTENT_TYPE).is_some_and(of)
}

/// Answers a rejected call by its status alone, in the headers: `RESOURCE_EXHAUSTED` if a limit rejected it, `UNAVAILABLE` if
/// the store is the reason.
pub(super) fn answer<B>(rejection: &Rejection, headers: Headers) -> Response<LimitBody<B>> {
    let code = match rejection.reason() {
        Reason::StoreUnavailable | Reason::StoreMisconfigured => 14,
        Reason::NotConfigured => 13,
        _ => 8,
    };
    let mut response = Response::new(LimitBody::own(String::new()));
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer.insert(STATUS, HeaderValue::from(code));
    answer.insert(MESSAGE, HeaderValue::from_static(title(rejection)));
    headers.write(Told::rejected(rejection), answer);
    response
}
