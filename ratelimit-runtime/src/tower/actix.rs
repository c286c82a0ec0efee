//! actix: the same layers as middleware.

use std::{
    fmt,
    future::{Ready, ready},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::{
    Error, HttpMessage,
    body::EitherBody,
    dev::{Service, ServiceRequest, ServiceResponse, Transform},
    error::InternalError,
};
use http::response;

use super::{body::LimitBody, compiled::Compiled, limit::Limit, outcomes};
use crate::{
    Decision, Rejection,
    limits::Observer,
    web::{
        Headers,
        actix::{answer, heads},
    },
};

type Call<B> = Pin<Box<dyn Future<Output = Result<ServiceResponse<B>, Error>>>>;

/// With the feature `actix` a limit is a middleware, of an application, a scope, a resource or a route. Functions of a request see
/// its method, URI, version and headers. An error of a middleware inside is settled and described as the response that it
/// becomes; middleware outside sees it as an [`InternalError`].
///
/// By default actix goes on with the request of a client that hung up, because it may only have closed its half of the connection:
/// the request keeps its place in line, and takes its permit. Call `HttpServer::h1_allow_half_closed(false)` if
/// requests wait. Over HTTP/2 actix always goes on.
impl<S, B> Transform<S, ServiceRequest> for Limit
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: 'static,
{
    type Response = ServiceResponse<EitherBody<LimitBody<B>>>;
    type Error = Error;
    type InitError = ();
    type Transform = LimitMiddleware<S>;
    type Future = Ready<Result<LimitMiddleware<S>, ()>>;

    /// # Panics
    ///
    /// Panics if the limit is invalid; [`check`](Limit::check) returns the same as an error.
    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(LimitMiddleware { inner: Rc::new(inner), compiled: Arc::new(self.valid()) }))
    }
}

/// An actix service whose requests are limited by a [`Limit`].
///
/// # Examples
///
/// ```
/// use actix_web::{App, HttpResponse, test, web};
/// use ratelimit_runtime::{Limits, Quota, tower::Limit};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # actix_web::rt::System::new().block_on(async {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let search = Limit::new("search", Quota::per_minute(1)).limits(&limits);
/// let resource = web::resource("/search").wrap(search).to(HttpResponse::Ok);
/// let app = test::init_service(App::new().service(resource)).await;
///
/// for status in [200, 429] {
///     let request = test::TestRequest::with_uri("/search").to_request();
///     assert_eq!(test::call_service(&app, request).await.status(), status);
/// }
/// # Ok(())
/// # })
/// # }
/// ```
pub struct LimitMiddleware<S> {
    inner: Rc<S>,
    compiled: Arc<Compiled>,
}

impl<S, B> Service<ServiceRequest> for LimitMiddleware<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: 'static,
{
    type Response = ServiceResponse<EitherBody<LimitBody<B>>>;
    type Error = Error;
    type Future = Call<EitherBody<LimitBody<B>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (inner, compiled) = (Rc::clone(&self.inner), Arc::clone(&self.compiled));
        Box::pin(async move {
            let mut head = heads::of_request(request.request());
            let held = match compiled.admit(&mut head).await {
                Ok(held) => held,
                Err(rejection) => return Ok(reject(&rejection, compiled.headers, request)),
            };
            if let Some(decision) = head.extensions.remove::<Decision>() {
                request.extensions_mut().insert(decision);
            }
            let (observer, call) = Observer::of(compiled.limits.as_ref(), || inner.call(request));
            let answer = call.await;
            let finish = |head: &mut _| compiled.finish(held, &observer.outcomes(), head);
            let answer = described(answer, finish)?;
            let limits = compiled.limits.clone();
            Ok(answer.map_body(|_, body| LimitBody::inner(body, limits)).map_into_left_body())
        })
    }
}

/// Describes the limits in a response, or in the one that an error becomes: that of a middleware inside is not a
/// response yet.
fn described<B>(
    answer: Result<ServiceResponse<B>, Error>,
    describe: impl FnOnce(&mut response::Parts),
) -> Result<ServiceResponse<B>, Error> {
    match answer {
        Ok(mut response) => {
            heads::change(response.response_mut(), describe);
            Ok(response)
        }
        Err(error) => {
            let mut response = error.error_response();
            heads::change(&mut response, describe);
            Err(InternalError::from_response(error, response).into())
        }
    }
}

fn reject<B>(
    rejection: &Rejection,
    headers: Headers,
    request: ServiceRequest,
) -> ServiceResponse<EitherBody<LimitBody<B>>> {
    let mut response = answer(rejection, headers);
    if let Some(decision) = rejection.decision() {
        response.extensions_mut().insert(decision.clone());
    }
    request.into_response(response).map_into_right_body()
}

impl<S> fmt::Debug for LimitMiddleware<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitMiddleware").finish_non_exhaustive()
    }
}

/// With the feature `actix` it is a middleware too, which adds the headers to the responses of annotated handlers and of
/// the [`Limit`]s inside.
impl<S, B> Transform<S, ServiceRequest> for Headers
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type InitError = ();
    type Transform = HeadersMiddleware<S>;
    type Future = Ready<Result<HeadersMiddleware<S>, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(HeadersMiddleware { inner, headers: *self }))
    }
}

/// An actix service whose responses have the headers of rate limits; created by [`Headers`].
///
/// # Examples
///
/// ```
/// use actix_web::{App, HttpResponse, test, web};
/// use ratelimit_runtime::{Limits, Quota, tower::Limit, web::Headers};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # actix_web::rt::System::new().block_on(async {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let search = Limit::new("search", Quota::per_minute(30)).limits(&limits);
/// let resource = web::resource("/search").wrap(search).to(HttpResponse::Ok);
/// let app = test::init_service(App::new().wrap(Headers::XRateLimit).service(resource)).await;
///
/// let request = test::TestRequest::with_uri("/search").to_request();
/// let response = test::call_service(&app, request).await;
/// assert_eq!(response.headers().get("x-ratelimit-remaining").unwrap(), "29");
/// # Ok(())
/// # })
/// # }
/// ```
pub struct HeadersMiddleware<S> {
    inner: S,
    headers: Headers,
}

impl<S, B> Service<ServiceRequest> for HeadersMiddleware<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Future = Call<B>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (call, headers) = (self.inner.call(request), self.headers);
        Box::pin(async move {
            let (observer, call) = Observer::of(None, || call);
            let answer = call.await;
            let outcomes = observer.outcomes();
            let outcomes = outcomes.iter().map(Result::as_ref);
            described(answer, |head| outcomes::describe(headers, outcomes, head))
        })
    }
}

impl<S> fmt::Debug for HeadersMiddleware<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadersMiddleware").field("headers", &self.headers).finish_non_exhaustive()
    }
}
