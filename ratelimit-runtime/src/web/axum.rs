//! Rejections as axum responses.

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};

use super::{retry_after, status};
use crate::{FromRejection, Reason, Refundable, Rejection};

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

/// The service's own failures (5xx) give permits back; what the caller did wrong (4xx) does not.
#[diagnostic::do_not_recommend]
impl Refundable for Response {
    fn is_failure(&self) -> bool {
        self.status().is_server_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_services_own_failures_give_permits_back() {
        for (status, failure) in
            [(200, false), (404, false), (429, false), (500, true), (503, true)]
        {
            let response = StatusCode::from_u16(status).unwrap().into_response();
            assert_eq!(response.is_failure(), failure, "{status}");
        }
    }
}
