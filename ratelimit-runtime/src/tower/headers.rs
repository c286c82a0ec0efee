//! The layer that adds headers to the responses of annotated handlers.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::outcomes;
use crate::{limits::Observer, web::Headers};

/// Adds the headers of rate limits to the responses of a service, from the decisions of the annotated functions
/// and the [`Limit`](super::Limit) layers inside. The strictest [`Decision`](crate::Decision) is in the extensions of the
/// response. Responses to requests that no limit decided are unchanged.
impl<S> Layer<S> for Headers {
    type Service = HeadersService<S>;

    fn layer(&self, inner: S) -> HeadersService<S> {
        HeadersService { inner, headers: *self }
    }
}

/// A service whose responses have the headers of rate limits; created by the layer
/// [`Headers`](crate::web::Headers).
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use ratelimit_runtime::{Limits, Rejection, rate_limit, web::{self, Headers}};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// #[rate_limit(key = "headlines", rate = 30, per = "1m", wait = "none")]
/// async fn headlines() -> Result<Response<String>, Rejection> {
///     Ok(Response::new("festina lente".to_owned()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let service = Headers::Ietf.layer(service_fn(|_: Request<()>| async {
///     let rejected = |rejection| web::response(&rejection, Headers::Ietf);
///     Ok::<_, Infallible>(headlines().await.unwrap_or_else(rejected))
/// }));
///
/// let response = limits.scope(service.oneshot(Request::new(()))).await?;
/// assert_eq!(response.headers()["ratelimit"], r#""headlines";r=29;t=60"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HeadersService<S> {
    inner: S,
    headers: Headers,
}

impl<S, B, R> Service<Request<B>> for HeadersService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (call, headers) = (self.inner.call(request), self.headers);
        Box::pin(async move {
            let (observer, call) = Observer::of(None, || call);
            let (mut parts, body) = call.await?.into_parts();
            let outcomes = observer.outcomes();
            outcomes::describe(headers, outcomes.iter().map(Result::as_ref), &mut parts);
            Ok(Response::from_parts(parts, body))
        })
    }
}

impl<S: fmt::Debug> fmt::Debug for HeadersService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadersService")
            .field("inner", &self.inner)
            .field("headers", &self.headers)
            .finish()
    }
}
