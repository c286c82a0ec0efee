//! Converts heads of requests and responses, because actix uses an older version of `http`.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode as ActixStatus, Version as ActixVersion, header as actix},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::RETRY_AFTER, request, response,
};

use crate::{Decision, web::headers::DESCRIBING};

/// Returns the head of a request, with the peer's address and an outer layer's decision in its extensions.
pub(crate) fn of_request(request: &HttpRequest) -> request::Parts {
    use actix_web::HttpMessage;

    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::from_bytes(request.method().as_str().as_bytes()).unwrap_or_default();
    head.uri = Uri::try_from(request.uri().to_string()).unwrap_or_default();
    head.version = version(request.version());
    head.headers = of_headers(request.headers(), |_| true);
    if let Some(peer) = super::peer(request) {
        head.extensions.insert(peer);
    }
    if let Some(decision) = request.extensions().get::<Decision>() {
        head.extensions.insert(decision.clone());
    }
    head
}

/// Changes the headers of a response that describe limits, and its decision.
pub(crate) fn change<B>(response: &mut HttpResponse<B>, change: impl FnOnce(&mut response::Parts)) {
    let (mut head, ()) = Response::new(()).into_parts();
    head.status = of_status(response.status());
    head.headers = of_headers(response.headers(), |_| true);
    change(&mut head);
    for name in DESCRIBING.into_iter().chain([RETRY_AFTER]) {
        let Ok(actix) = actix::HeaderName::from_bytes(name.as_str().as_bytes()) else { continue };
        let lines = head.headers.get_all(&name).iter();
        let lines = lines.filter_map(|line| actix::HeaderValue::from_bytes(line.as_bytes()).ok());
        drop(response.headers_mut().remove(&actix));
        lines.for_each(|line| response.headers_mut().append(actix.clone(), line));
    }
    if let Some(decision) = head.extensions.remove::<Decision>() {
        response.extensions_mut().insert(decision);
    }
}

/// Returns the headers with these names.
pub(super) fn of_headers(
    headers: &actix::HeaderMap,
    wanted: impl Fn(&HeaderName) -> bool,
) -> HeaderMap {
    let header = |(name, value): (&actix::HeaderName, &actix::HeaderValue)| {
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
        let value = wanted(&name).then(|| HeaderValue::from_bytes(value.as_bytes()).ok())??;
        Some((name, value))
    };
    // Of the names: a map bounds only these, and panics if its capacity is greater.
    let mut map = HeaderMap::with_capacity(headers.len_keys());
    for (name, value) in headers.iter().filter_map(header) {
        map.append(name, value);
    }
    map
}

pub(super) fn of_status(status: ActixStatus) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or_default()
}

pub(super) fn to_status(status: StatusCode) -> ActixStatus {
    ActixStatus::from_u16(status.as_u16()).unwrap_or(ActixStatus::INTERNAL_SERVER_ERROR)
}

fn version(version: ActixVersion) -> Version {
    match version {
        ActixVersion::HTTP_09 => Version::HTTP_09,
        ActixVersion::HTTP_10 => Version::HTTP_10,
        ActixVersion::HTTP_2 => Version::HTTP_2,
        ActixVersion::HTTP_3 => Version::HTTP_3,
        _ => Version::HTTP_11,
    }
}
