//! One limiter of a layer, as configured.

use std::sync::Arc;

use http::{request, response};

use ratelimit_spec::KeyWriter;

use crate::{Settings, annotation::LayerKey};

/// One limiter of a layer.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) template: Arc<LayerKey>,
    /// `None` if only the limits file has settings.
    pub(super) settings: Option<Settings>,
    pub(super) values: Vec<Value>,
    pub(super) permits: Option<OfRequest<u64>>,
    pub(super) skip_if: Option<OfRequest<bool>>,
    pub(super) refund_if: Option<OfResponse<bool>>,
    pub(super) actual: Option<OfResponse<Option<u64>>>,
}

pub(super) type OfRequest<T> = Arc<dyn Fn(&request::Parts) -> T + Send + Sync>;
pub(super) type OfResponse<T> = Arc<dyn Fn(&response::Parts) -> T + Send + Sync>;

/// Writes the value of a placeholder for a request.
pub(super) type WriteValue = dyn Fn(&request::Parts, &mut KeyWriter) + Send + Sync;

/// The value of a placeholder.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) name: String,
    pub(super) is_optional: bool,
    pub(super) write: Arc<WriteValue>,
}
