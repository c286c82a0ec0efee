//! What a limit reads from a request, and from its response.

use std::sync::Arc;

use http::{request, response};

use super::Limit;
use crate::tower::{
    member::{OfRequest, OfResponse, Value},
    part::IntoPart,
};

impl Limit {
    /// Sets the value of the placeholder `{name}`. The closure returns a [`KeyPart`](crate::KeyPart), or for
    /// `{name?}` an `Option` of one. All requests without a value share a limiter.
    ///
    /// This and the methods below apply to all limits that were [joined](Self::and) before.
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
    /// let each_key = Limit::new("api:{key?}", Quota::per_minute(1)).key("key", |request| {
    ///     Some(request.headers.get("x-api-key")?.to_str().ok()?.to_owned())
    /// });
    /// let service = each_key.limits(&limits).layer(inner);
    ///
    /// for (key, status) in [("ada", 200), ("ada", 429), ("grace", 200)] {
    ///     let request = Request::builder().header("x-api-key", key).body(())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
    /// let search = Limit::new("search", Quota::per_minute(30))
    ///     .permits(|request| if request.uri.path() == "/search/all" { 5 } else { 1 });
    /// let service = search.limits(&limits).layer(inner);
    ///
    /// let response = service.oneshot(Request::get("/search/all").body(())?).await?;
    /// assert_eq!(response.headers()["ratelimit"], r#""search";r=25;t=60"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(self, cost: impl Fn(&request::Parts) -> u64 + Send + Sync + 'static) -> Self {
        let cost: OfRequest<u64> = Arc::new(cost);
        self.with_each(|member| member.permits = Some(Arc::clone(&cost)))
    }

    /// Exempts the requests for which `skip` returns `true`.
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
    /// let shop = Limit::new("shop", Quota::per_minute(1))
    ///     .skip_if(|request| request.uri.path() == "/health");
    /// let service = shop.limits(&limits).layer(inner);
    ///
    /// for (path, status) in [("/cart", 200), ("/cart", 429), ("/health", 200)] {
    ///     let response = service.clone().oneshot(Request::get(path).body(())?).await?;
    ///     assert_eq!(response.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip_if(self, skip: impl Fn(&request::Parts) -> bool + Send + Sync + 'static) -> Self {
        let skip: OfRequest<bool> = Arc::new(skip);
        self.with_each(|member| member.skip_if = Some(Arc::clone(&skip)))
    }

    /// Refunds the permits of a request if this returns `true` for the response. If the inner
    /// service fails or the client hangs up, the permits stay taken. The status of a gRPC response is always 200;
    /// if the call failed before its first message, its headers have the `grpc-status`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::future::ready;
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let answer = || Response::builder().header("x-cached", "1").body(());
    /// # let inner = service_fn(move |_: Request<()>| ready(answer()));
    /// let search = Limit::new("search", Quota::per_minute(30))
    ///     .refund_if(|response| response.headers.contains_key("x-cached"));
    /// let service = search.limits(&limits).layer(inner);
    ///
    /// let response = service.oneshot(Request::new(())).await?;
    /// assert_eq!(response.headers()["x-cached"], "1");
    /// assert_eq!(response.headers()["ratelimit"], r#""search";r=30"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn refund_if(
        self,
        refund: impl Fn(&response::Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        let refund: OfResponse<bool> = Arc::new(refund);
        self.with_each(|member| member.refund_if = Some(Arc::clone(&refund)))
    }

    /// Reads from the response how many permits the request really cost. With `None` the estimate
    /// stands. A refund takes precedence.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::future::ready;
    /// # use http::{Request, Response};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// use ratelimit_runtime::{Limits, Quota, tower::Limit};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let answer = || Response::builder().header("x-tokens", "120").body(());
    /// # let inner = service_fn(move |_: Request<()>| ready(answer()));
    /// let tokens = Limit::new("tokens", Quota::per_minute(1000)).permits(|_| 500).actual(|response| {
    ///     response.headers.get("x-tokens")?.to_str().ok()?.parse().ok()
    /// });
    /// let service = tokens.limits(&limits).layer(inner);
    ///
    /// let response = service.oneshot(Request::new(())).await?;
    /// assert_eq!(response.headers()["x-tokens"], "120");
    /// assert_eq!(response.headers()["ratelimit"], r#""tokens";r=880;t=60"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn actual(
        self,
        actual: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        let actual: OfResponse<Option<u64>> = Arc::new(actual);
        self.with_each(|member| member.actual = Some(Arc::clone(&actual)))
    }
}
