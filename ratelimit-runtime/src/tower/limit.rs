//! The layer, as configured by users.

mod of_request;

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{compiled::Compiled, member::Member, service::LimitService};
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{convert::Infallible, future::ready, net::SocketAddr};
    /// use http::{Request, Response};
    /// use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let each_client = Limit::new("search:{ip}", Quota::per_minute(1)).limits(&limits);
    /// let service = each_client.layer(inner);
    ///
    /// for (ip, status) in [([192, 0, 2, 1], 200), ([192, 0, 2, 1], 429), ([192, 0, 2, 2], 200)] {
    ///     let request = Request::builder().extension(SocketAddr::from((ip, 4711))).body(())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(template: &str, settings: impl Into<Settings>) -> Self {
        Self::of(template, Some(settings.into()))
    }

    /// Limits the requests of each key of this template by the quota of the limits file, or else by
    /// the stored one. Without either, requests are rejected with 500.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{convert::Infallible, future::ready};
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let yaml = "limiters: { search: { rate: 30, per: 1m } }";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// let service = Limit::configured("search").limits(&limits).layer(inner);
    ///
    /// let response = service.oneshot(Request::new(())).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], r#""search";q=30;w=60"#);
    /// # Ok(())
    /// # }
    /// ```
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

    /// Takes from both or from neither. Each limit keeps its key, its permits and its conditions; headers
    /// and limits are those of `self`. The two templates must not be able to produce the same key.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{convert::Infallible, future::ready};
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let minute = Limit::new("search", Quota::per_minute(3));
    /// let heavy = Limit::new("heavy", Quota::per_minute(1)).skip_if(|it| it.uri.path() != "/all");
    /// let service = minute.and(heavy).limits(&limits).layer(inner);
    ///
    /// for (path, status) in [("/all", 200), ("/all", 429), ("/one", 200)] {
    ///     let response = service.clone().oneshot(Request::get(path).body(())?).await?;
    ///     assert_eq!(response.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
    }

    /// Sets which headers describe the limits, in all responses ([`Headers::Ietf`] by default). The headers of an outer
    /// layer replace them.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{convert::Infallible, future::ready};
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit, web::Headers};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let search = Limit::new("search", Quota::per_minute(30)).headers(Headers::XRateLimit);
    /// let service = search.limits(&limits).layer(inner);
    ///
    /// let response = service.oneshot(Request::new(())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "29");
    /// # Ok(())
    /// # }
    /// ```
    pub fn headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    /// Uses these limits, also for annotated functions in the inner service, and in the body of its response while it
    /// streams. By default each request uses its [`Limits::current`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{convert::Infallible, future::ready};
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let limits = Limits::builder().memory().build().await?;
    /// let service = Limit::new("search", Quota::per_minute(30)).limits(&limits).layer(inner);
    /// service.oneshot(Request::new(())).await?;
    ///
    /// let report = limits.report();
    /// assert_eq!(report.limiter("search").map(|limiter| limiter.allowed), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..self }
    }

    /// Validates the limit; [`layer`](Layer::layer) panics if it is invalid.
    ///
    /// # Errors
    ///
    /// Returns an error if a template is malformed, a placeholder has no value or a value no
    /// placeholder, the value of `{name}` is an `Option`, or two joined limits can have the same key.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Quota, tower::Limit};
    ///
    /// let error = Limit::new("api:{tenant}", Quota::per_minute(30)).check().unwrap_err();
    /// assert!(error.to_string().contains("`{tenant}` of the limit `api:{tenant}` has no value"));
    /// ```
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
