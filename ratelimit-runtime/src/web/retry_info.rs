//! The `RetryInfo` of a gRPC status in the headers of a response.

use std::time::Duration;

use ::tonic::metadata::{MetadataMap, MetadataValue};
use http::{HeaderMap, HeaderName};
use prost::Message;
use tonic_types::{RetryInfo, pb};

const DETAILS: &str = "grpc-status-details-bin";

/// Reads the `RetryInfo` of a gRPC status without a body.
#[cfg(feature = "client")]
pub(crate) fn retry_info(headers: &HeaderMap) -> Option<Duration> {
    let status = details(headers)?;
    delay(&status.details.iter().find(|detail| detail.type_url == RetryInfo::TYPE_URL)?.value)
}

/// Sets the `RetryInfo` of a gRPC status without a body to this time, if it has an earlier one.
pub(super) fn retry_not_before(wait: Duration, headers: &mut HeaderMap) {
    let Some(mut status) = details(headers) else { return };
    let info = status.details.iter_mut().find(|detail| detail.type_url == RetryInfo::TYPE_URL);
    let Some(info) = info.filter(|info| delay(&info.value).is_some_and(|delay| delay < wait))
    else {
        return;
    };
    info.value = pb::RetryInfo { retry_delay: wait.try_into().ok() }.encode_to_vec();
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(DETAILS, MetadataValue::from_bytes(&status.encode_to_vec()));
    headers.extend(metadata.into_headers());
}

/// Decodes the details of a status. `Status::from_header_map` panics if they are malformed.
fn details(headers: &HeaderMap) -> Option<pb::Status> {
    headers.get("grpc-status")?;
    let name = HeaderName::from_static(DETAILS);
    let details = HeaderMap::from_iter([(name, headers.get(DETAILS)?.clone())]);
    let details = MetadataMap::from_headers(details).get_bin(DETAILS)?.to_bytes().ok()?;
    pb::Status::decode(details).ok()
}

/// Decodes a `RetryInfo`. `get_details_retry_info` panics if its seconds are `i64::MIN`.
fn delay(info: &[u8]) -> Option<Duration> {
    let delay = pb::RetryInfo::decode(info).ok()?.retry_delay?;
    let nanos = Duration::from_nanos(u64::try_from(delay.nanos).ok()?);
    Some(Duration::from_secs(u64::try_from(delay.seconds).ok()?) + nanos)
}
