//! The body of the response to a rejected request.

use http::StatusCode;
use serde_json::json;

use super::headers::{Policy, of_rejection};
use crate::{Reason, Rejection};

/// Returns the status of a rejection: 429 if a limit rejected the request, 503 if the store is the
/// reason, 422 if no wait helps, since repeating the request does not help either, or 429 if the
/// limit rejects every call. A misconfigured service responds with 500.
pub(super) fn status(rejection: &Rejection) -> StatusCode {
    match rejection.reason() {
        Reason::Limited | Reason::WaitTooLong | Reason::Blocked | Reason::QueueFull => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Reason::ExceedsCapacity if is_closed(rejection) => StatusCode::TOO_MANY_REQUESTS,
        Reason::ExceedsCapacity => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::StoreUnavailable | Reason::StoreMisconfigured => StatusCode::SERVICE_UNAVAILABLE,
        Reason::NotConfigured => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns whether the limit rejects every call.
fn is_closed(rejection: &Rejection) -> bool {
    rejection.quota().is_some_and(|quota| quota.rate() == 0)
}

/// Describes the error in one ASCII sentence.
///
/// Contains nothing that a client must not know: neither values in the key nor errors of the store.
pub(crate) fn title(rejection: &Rejection) -> &'static str {
    match rejection.reason() {
        Reason::ExceedsCapacity if !is_closed(rejection) => {
            "Request needs more permits than its rate limit ever grants at once"
        }
        Reason::Limited
        | Reason::WaitTooLong
        | Reason::Blocked
        | Reason::QueueFull
        | Reason::ExceedsCapacity => {
            "Request cannot be satisfied as assigned quota has been exceeded"
        }
        Reason::StoreUnavailable => {
            "Request cannot be satisfied due to temporary server capacity constraints"
        }
        Reason::StoreMisconfigured => "Service Unavailable",
        Reason::NotConfigured => "Internal Server Error",
    }
}

/// An RFC 9457 problem with the types and members of the IETF draft.
pub(super) fn body(rejection: &Rejection) -> String {
    const TYPES: &str = "https://iana.org/assignments/http-problem-types";
    let status = status(rejection);
    let kind = match status {
        StatusCode::TOO_MANY_REQUESTS => format!("{TYPES}#quota-exceeded"),
        _ if rejection.reason() == Reason::StoreUnavailable => {
            format!("{TYPES}#temporary-reduced-capacity")
        }
        _ => "about:blank".to_owned(),
    };
    let title = title(rejection);
    let mut problem = json!({ "type": kind, "title": title, "status": status.as_u16() });
    let violated: Vec<_> = of_rejection(rejection).into_iter().map(Policy::into_name).collect();
    if !violated.is_empty() {
        problem["violated-policies"] = violated.into();
    }
    problem.to_string()
}
