//! Rejections as axum responses.

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};

use ratelimit_spec::RefundOn;

use super::{retry_after, status};
use crate::{FromRejection, Reason, Rejection, refund::Judged};

/// 429 with `Retry-After`, or 503 when the store is the reason. The body says which of the two in
/// a few words; neither the limiter nor the key is in it.
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(status(self.reason()))
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = match self.reason() {
            Reason::ExceedsCapacity => "request exceeds the rate limit",
            _ if status == StatusCode::TOO_MANY_REQUESTS => "rate limit exceeded",
            _ if status == StatusCode::SERVICE_UNAVAILABLE => "service unavailable",
            _ => "internal server error",
        };
        let mut response = (status, text).into_response();
        if let Some(seconds) = retry_after(&self) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[diagnostic::do_not_recommend]
impl FromRejection for Response {
    fn from_rejection(rejection: Rejection) -> Self {
        rejection.into_response()
    }
}

/// A failure of the service (5xx) is an `err`. An error of the caller (4xx) is neither that nor an `ok`, so it always
/// counts: neither bad requests nor wrong passwords are free.
#[diagnostic::do_not_recommend]
impl Judged for Response {
    fn outcome(&self) -> Option<RefundOn> {
        match self.status() {
            status if status.is_server_error() => Some(RefundOn::Err),
            status if status.is_client_error() => None,
            _ => Some(RefundOn::Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_caller_are_never_refunded() {
        for (status, outcome) in [
            (200, Some(RefundOn::Ok)),
            (303, Some(RefundOn::Ok)),
            (401, None),
            (429, None),
            (500, Some(RefundOn::Err)),
            (503, Some(RefundOn::Err)),
        ] {
            let response = StatusCode::from_u16(status).unwrap().into_response();
            assert_eq!(response.outcome(), outcome, "{status}");
        }
    }
}
