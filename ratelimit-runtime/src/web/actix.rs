//! actix: rejections as responses, and the client's address as an extractor.

pub(crate) mod heads;

use std::{
    future::{Ready, ready},
    net::SocketAddr,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse, ResponseError, dev::Payload,
    http::StatusCode,
};
use ratelimit_spec::RefundOn;

use super::{ClientIp, Headers, judge, problem, response, unknown_peer};
use crate::{FromRejection, Limits, Rejection, refund::Judged};

/// Responds like [`web::response`](response), with the headers of [`Headers::Ietf`].
impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        heads::to_status(problem::status(self))
    }

    fn error_response(&self) -> HttpResponse {
        answer(self, Headers::Ietf)
    }
}

#[diagnostic::do_not_recommend]
impl FromRejection for HttpResponse {
    fn from_rejection(rejection: Rejection) -> Self {
        rejection.error_response()
    }
}

#[diagnostic::do_not_recommend]
impl<B> Judged for HttpResponse<B> {
    fn outcome(&self) -> Option<RefundOn> {
        judge(heads::of_status(self.status()))
    }
}

/// Returns the response to a rejected request.
pub(crate) fn answer(rejection: &Rejection, headers: Headers) -> HttpResponse {
    let (head, body) = response(rejection, headers).into_parts();
    let mut answer = HttpResponse::build(heads::to_status(head.status));
    for (name, value) in &head.headers {
        answer.insert_header((name.as_str(), value.as_bytes()));
    }
    answer.body(body)
}

/// Finds the client by the trusted proxies of [`Limits::current`].
impl FromRequest for ClientIp {
    type Error = Rejection;
    type Future = Ready<Result<Self, Rejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Limits::with_scope(|limits, _| {
            let peer = peer(request).ok_or_else(|| unknown_peer(limits, &"{ip}".into()))?;
            let headers = heads::of_headers(request.headers(), Self::is_named_by(limits));
            Ok(Self::of(limits, peer.ip(), &headers))
        }))
    }
}

/// Returns the address that a middleware inserted, or else that of the connection, which a Unix socket lacks.
fn peer(request: &HttpRequest) -> Option<SocketAddr> {
    request.extensions().get().copied().or_else(|| request.peer_addr())
}
