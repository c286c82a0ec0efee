//! The service of a layer.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderValue, Method, Request, Response, header::CONTENT_LENGTH, request};
use tower_service::Service;

use super::{body::LimitBody, compiled::Compiled, grpc};
use crate::{
    Rejection,
    limits::Observer,
    web::{Headers, response},
};

/// A service whose requests are limited by a [`Limit`](super::Limit).
///
/// It is ready when the inner service is: the decision about a request is a part of its future, so that a
/// slow store never keeps a server from accepting requests. A request that waits for its permit keeps what the inner
/// service reserved for it, such as the slot of a `ConcurrencyLimit` directly inside.
///
/// # Examples
///
/// ```
/// use std::{convert::Infallible, future::ready};
/// use http::{Request, Response};
/// use ratelimit_runtime::{Limits, Quota, tower::Limit};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new("found"))));
/// let service = Limit::new("search", Quota::per_minute(1)).limits(&limits).layer(inner);
///
/// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), 200);
/// let response = service.oneshot(Request::new(())).await?;
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["ratelimit-policy"], r#""search";q=1;w=60"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LimitService<S> {
    inner: S,
    compiled: Arc<Compiled>,
}

impl<S> LimitService<S> {
    pub(super) fn new(inner: S, compiled: Compiled) -> Self {
        Self { inner, compiled: Arc::new(compiled) }
    }
}

impl<S, B, R> Service<Request<B>> for LimitService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<LimitBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone may not be ready; the current service is, and handles this request.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let compiled = Arc::clone(&self.compiled);
        let (mut parts, body) = request.into_parts();
        Box::pin(async move {
            let held = match compiled.admit(&mut parts).await {
                Ok(held) => held,
                Err(rejection) => return Ok(reject(&rejection, compiled.headers, &parts)),
            };
            let call = move || inner.call(Request::from_parts(parts, body));
            let (observer, call) = Observer::of(compiled.limits.as_ref(), call);
            let (mut parts, body) = call.await?.into_parts();
            compiled.finish(held, &observer.outcomes(), &mut parts);
            Ok(Response::from_parts(parts, LimitBody::inner(body, compiled.limits.clone())))
        })
    }
}

fn reject<R>(
    rejection: &Rejection,
    headers: Headers,
    request: &request::Parts,
) -> Response<LimitBody<R>> {
    let mut answer = match request.method {
        _ if grpc::is_grpc(&request.headers) => grpc::answer(rejection, headers),
        Method::HEAD => without_body(response(rejection, headers)),
        _ => response(rejection, headers).map(LimitBody::own),
    };
    if let Some(decision) = rejection.decision() {
        answer.extensions_mut().insert(decision.clone());
    }
    answer
}

/// Returns the response to `HEAD`, which has only the length of a body: an HTTP/2 client resets the stream otherwise.
fn without_body<R>(mut answer: Response<String>) -> Response<LimitBody<R>> {
    let length = HeaderValue::from(answer.body().len());
    answer.headers_mut().insert(CONTENT_LENGTH, length);
    answer.map(|_| LimitBody::own(String::new()))
}

impl<S: fmt::Debug> fmt::Debug for LimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
