//! Responses to gRPC requests, which have their own statuses.

use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};

use super::body::LimitBody;
use crate::{
    Rejection,
    web::{Headers, Reported},
};

/// Returns whether a request is a gRPC call.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let of = |value: &HeaderValue| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
    };
    headers.get(CONTENT_TYPE).is_some_and(of)
}

/// Responds to a rejected call with a status in the headers alone: `RESOURCE_EXHAUSTED` if a limit
/// rejected it, `UNAVAILABLE` if the store is the reason.
pub(super) fn answer<B>(rejection: &Rejection, headers: Headers) -> Response<LimitBody<B>> {
    let mut response = Response::new(LimitBody::own(String::new()));
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    write_status(rejection, answer);
    headers.write(Reported::rejected(rejection), answer);
    response
}

/// With the feature `tonic` the status has details, which contain the time to retry.
#[cfg(feature = "tonic")]
fn write_status(rejection: &Rejection, headers: &mut HeaderMap) {
    let status = tonic::Status::from(rejection.clone());
    // The status has no metadata of its own, the only part that can be malformed.
    let _ = status.add_header(headers);
}

#[cfg(not(feature = "tonic"))]
fn write_status(rejection: &Rejection, headers: &mut HeaderMap) {
    use crate::{Reason, web::title};

    let code = match rejection.reason() {
        Reason::StoreUnavailable | Reason::StoreMisconfigured => 14,
        Reason::NotConfigured => 13,
        _ => 8,
    };
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-message", HeaderValue::from_static(title(rejection)));
}
