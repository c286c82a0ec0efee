//! axum: rejections as responses, and the client's address as an extractor.

use std::convert::Infallible;

use ::axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use ratelimit_spec::RefundOn;

use super::{ClientIp, Headers, judge, peer_of, response, unknown_peer};
use crate::{FromRejection, Limits, Rejection, refund::Judged};

/// Responds like [`web::response`](response), with the headers of [`Headers::Ietf`].
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        response(&self, Headers::Ietf).into_response()
    }
}

#[diagnostic::do_not_recommend]
impl FromRejection for Response {
    fn from_rejection(rejection: Rejection) -> Self {
        rejection.into_response()
    }
}

#[diagnostic::do_not_recommend]
impl Judged for Response {
    fn outcome(&self) -> Option<RefundOn> {
        judge(self.status())
    }
}

/// Needs the address of the peer: serve with `into_make_service_with_connect_info::<SocketAddr>()`.
impl<S: Sync> FromRequestParts<S> for ClientIp {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let peer = peer_of(&parts.extensions)
            .ok_or_else(|| unknown_peer(&Limits::current(), &"{ip}".into()))?;
        Ok(Self::from_headers(peer, &parts.headers))
    }
}

/// `None` if the address of the peer is unknown, for keys with `{ip?}`.
impl<S: Sync> OptionalFromRequestParts<S> for ClientIp {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        let peer = peer_of(&parts.extensions);
        Ok(peer.map(|peer| Self::from_headers(peer, &parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use ::axum::http::StatusCode;

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
