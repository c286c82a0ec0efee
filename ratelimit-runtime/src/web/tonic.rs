//! tonic: rejections as statuses of gRPC.

use ::tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::title;
use crate::{Reason, Rejection};

/// `RESOURCE_EXHAUSTED` if a limit rejected the call, `UNAVAILABLE` if the store is the reason, and `INTERNAL` if the limiter has
/// no quota or the address of the peer is unknown. The details have a `RetryInfo` if the time to retry after is known; the
/// layers extend it if another limit of the request has no permits until later.
impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        let code = match rejection.reason() {
            Reason::StoreUnavailable | Reason::StoreMisconfigured => Code::Unavailable,
            Reason::NotConfigured => Code::Internal,
            _ => Code::ResourceExhausted,
        };
        match rejection.retry_after() {
            Some(wait) => {
                let details = ErrorDetails::with_retry_info(Some(wait));
                Self::with_error_details(code, title(&rejection), details)
            }
            None => Self::new(code, title(&rejection)),
        }
    }
}
