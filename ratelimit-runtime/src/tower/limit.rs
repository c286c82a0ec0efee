//! The layer, as configured by users.

use std::{fmt, sync::Arc};

use http::{request, response};
use tower_layer::Layer;

use super::{
    compiled::Compiled,
    member::{Member, OfRequest, OfResponse, Value},
    part::IntoPart,
    service::LimitService,
};
use crate::{Limits, Settings, SetupError, annotation::LayerKey, web::Headers};

/// A layer that limits requests, before their bodies are read.
///
/// A rejected request gets the response of [`web::response`](crate::web::response); a gRPC request
/// gets a status without a body. The inner service is not called, and nothing of the request's body
/// is read. Requests do not wait for a permit unless [`Settings::wait`] or the limits file sets it. One that waits
/// leaves the queue when the server drops it, because its client hung up or a timeout passed. Over HTTP/1 hyper, and so
/// axum, does not notice that while a part of the body is unread: uploads keep their places.
///
/// The template names the limiter, as the `key` of [`rate_limit`](crate::rate_limit) does: a layer and an annotated function
/// with one template share one limiter. The settings of the attribute take precedence over those of the layer, and
/// the limits file over both. Create a limit before the limits are installed, and keep it or its layer: only then is its template
/// known when the limits file is checked against the program. Text that differs from request to request
/// is the value of a placeholder, not a part of the template: templates are labels of metrics.
///
/// # Examples
///
/// A limit for all clients and one for each, all or nothing, by the size of the upload:
///
/// ```
/// use ratelimit_runtime::{Quota, tower::Limit};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let uploads = Limit::new("uploads", Quota::per_minute(10_000))
///     .and(Limit::new("uploads:{ip}", Quota::per_minute(100)))
///     .permits(|request| {
///         let length = request.headers.get("content-length").and_then(|length| length.to_str().ok());
///         let bytes = length.and_then(|length| length.parse::<u64>().ok());
///         bytes.unwrap_or(0).div_ceil(1 << 20).max(1)
///     })
///     .skip_if(|request| request.uri.path() == "/health");
/// uploads.check()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a limit has no effect until it is a layer of a service"]
pub struct Limit {
    members: Vec<Member>,
    headers: Headers,
    limits: Option<Limits>,
}

impl Limit {
    /// Limits the requests of each key of this template, such as `search:{ip}`. A `Quota` or `Quotas` are
    /// enough for settings. Layers with one template share its limiters; write the same settings in all of them,
    /// because those of the layer that sees a key first apply to it. Different ones are reported as
    /// [`Event::LayersDiffer`](crate::Event::LayersDiffer).
    pub fn new(template: &str, settings: impl Into<Settings>) -> Self {
        Self::of(template, Some(settings.into()))
    }

    /// Limits the requests of each key of this template by the quota of the limits file, or else by
    /// the stored one. Without either, requests are rejected with 500.
    pub fn configured(template: &str) -> Self {
        Self::of(template, None)
    }

    fn of(template: &str, settings: Option<Settings>) -> Self {
        let member = Member {
            template: Arc::new(LayerKey::new(template, settings.as_ref().map(Settings::layer))),
            settings,
            values: Vec::new(),
            permits: None,
            skip_if: None,
            refund_if: None,
            actual: None,
        };
        Self { members: vec![member], headers: Headers::default(), limits: None }
    }

    /// Sets the value of the placeholder `{name}`. The closure returns a [`KeyPart`](crate::KeyPart), or for
    /// `{name?}` an `Option` of one. All requests without a value share a limiter.
    ///
    /// This and the methods below apply to all limits that were [joined](Self::and) before.
    pub fn key<P: IntoPart>(
        self,
        name: &str,
        part: impl Fn(&request::Parts) -> P + Send + Sync + 'static,
    ) -> Self {
        let value = Value {
            name: name.to_owned(),
            is_optional: P::IS_OPTIONAL,
            write: Arc::new(move |request, key| part(request).write_into(key)),
        };
        self.with_each(|member| member.values.push(value.clone()))
    }

    /// Sets the number of permits that a request takes (1 by default). A request for 0 permits is
    /// free; one for more than the limiter can ever grant is rejected with 422.
    pub fn permits(self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        let cost: OfRequest<u64> = Arc::new(cost);
        self.with_each(|member| member.permits = Some(Arc::clone(&cost)))
    }

    /// Exempts the requests for which `skip` returns `true`.
    pub fn skip_if(self, skip: impl Fn(&request::Parts) -> bool + Send + Sync + 'static) -> Self {
        let skip: OfRequest<bool> = Arc::new(skip);
        self.with_each(|member| member.skip_if = Some(Arc::clone(&skip)))
    }

    /// Refunds the permits of a request if this returns `true` for the response. If the inner
    /// service fails or the client hangs up, the permits stay taken. The status of a gRPC response is always 200;
    /// if the call failed before its first message, its headers have the `grpc-status`.
    pub fn refund_if(
        self,
        refund: impl Fn(&response::Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        let refund: OfResponse<bool> = Arc::new(refund);
        self.with_each(|member| member.refund_if = Some(Arc::clone(&refund)))
    }

    /// Reads from the response how many permits the request really cost. With `None` the estimate
    /// stands. A refund takes precedence.
    pub fn actual(
        self,
        actual: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        let actual: OfResponse<Option<u64>> = Arc::new(actual);
        self.with_each(|member| member.actual = Some(Arc::clone(&actual)))
    }

    /// Takes from both or from neither. Each limit keeps its key, its permits and its conditions; headers
    /// and limits are those of `self`. The two templates must not be able to produce the same key.
    pub fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
    }

    /// Sets which headers describe the limits, in all responses ([`Headers::Ietf`] by default). The headers of an outer
    /// layer replace them.
    pub fn headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    /// Uses these limits, also for annotated functions in the inner service, and in the body of its response while it
    /// streams. By default each request uses its [`Limits::current`].
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..self }
    }

    /// Validates the limit; [`layer`](Layer::layer) panics if it is invalid.
    ///
    /// # Errors
    ///
    /// Returns an error if a template is malformed, a placeholder has no value or a value no
    /// placeholder, the value of `{name}` is an `Option`, or two joined limits can have the same key.
    pub fn check(&self) -> Result<(), SetupError> {
        self.compiled().map(drop)
    }

    fn compiled(&self) -> Result<Compiled, SetupError> {
        Compiled::new(&self.members, self.headers, self.limits.clone())
    }

    /// # Panics
    ///
    /// Panics if it is invalid.
    pub(super) fn valid(&self) -> Compiled {
        self.compiled().unwrap_or_else(|error| panic!("{error}"))
    }

    fn with_each(mut self, change: impl FnMut(&mut Member)) -> Self {
        self.members.iter_mut().for_each(change);
        self
    }
}

impl<S> Layer<S> for Limit {
    type Service = LimitService<S>;

    /// # Panics
    ///
    /// Panics if the limit is invalid; [`check`](Limit::check) returns the same as an error.
    fn layer(&self, inner: S) -> LimitService<S> {
        LimitService::new(inner, self.valid())
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let templates: Vec<&str> = self.members.iter().map(|member| &**member.template).collect();
        f.debug_struct("Limit")
            .field("templates", &templates)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
