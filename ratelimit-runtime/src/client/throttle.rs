//! The layer, and its service.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    error::ThrottleError,
    pauses::{Pauses, Turn},
    upstream::{Answered, pause},
};
use crate::{Limiter, Permit, Reason, Rejection};

/// A layer that lets each outbound request wait for a permit of the limiter that a function names.
///
/// Requests of one limiter are sent first come, first served. A request whose future is dropped
/// before it was sent leaves the queue and takes nothing.
///
/// A pause that the upstream requests applies in this process, to all requests of the same limiter through
/// this layer, its clones and their services; of [combined](Limiter::and) limiters, to those of the same combination.
/// It is at most a day. Responses are passed on unchanged, and a rejected request is not resent. [`ThrottleService`]
/// lists the responses that request a pause.
///
/// # Examples
///
/// ```
/// # use std::{convert::Infallible, future::ready};
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt, service_fn};
/// use ratelimit_runtime::{Limits, Quota, client::Throttle};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
/// let of = limits.clone();
/// let throttle = Throttle::new(move |request: &Request<()>| {
///     let host = request.uri().host().unwrap_or_default();
///     of.limiter(&format!("partner:{host}"), Quota::per_minute(30))
/// });
/// throttle.layer(inner).oneshot(Request::get("https://api.example.org/").body(())?).await?;
///
/// let partner = limits.limiter("partner:api.example.org", Quota::per_minute(30));
/// assert_eq!(partner.available_permits().await?, 29);
/// # Ok(())
/// # }
/// ```
#[must_use = "a throttle has no effect until it is a layer of a service"]
pub struct Throttle<F> {
    limiter: Arc<F>,
    at_most: Option<Duration>,
    pauses: Arc<Pauses>,
}

impl<F> Throttle<F> {
    /// Sends each request once the limiter that `limiter` returns for it has a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, client::Throttle};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// let partner = limits.limiter("partner", Quota::per_second(10));
    /// let throttle = Throttle::new(move |_: &http::Request<String>| partner.clone());
    /// # let _ = throttle;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<R>(limiter: F) -> Self
    where
        F: Fn(&R) -> Limiter,
    {
        Self { limiter: Arc::new(limiter), at_most: None, pauses: Arc::default() }
    }

    /// Lets a request wait no longer than this for its permit, pauses included (forever by default). One that
    /// cannot get it in time is rejected immediately, with [`WaitTooLong`](Reason::WaitTooLong). The time until the
    /// inner service is ready is not limited.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{convert::Infallible, future::ready};
    /// use std::time::Duration;
    /// # use http::{Request, Response};
    /// use ratelimit_runtime::{Limits, Quota, Reason, client::{Throttle, ThrottleError}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// # let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    /// let partner = limits.limiter("partner", Quota::per_minute(1));
    /// let throttle = Throttle::new(move |_: &Request<()>| partner.clone());
    /// let client = throttle.timeout(Duration::from_secs(5)).layer(inner);
    ///
    /// client.clone().oneshot(Request::new(())).await?;
    /// let error = client.oneshot(Request::new(())).await.unwrap_err();
    /// assert!(matches!(error, ThrottleError::Rejected(it) if it.reason() == Reason::WaitTooLong));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(self, at_most: Duration) -> Self {
        Self { at_most: Some(at_most), ..self }
    }
}

impl<F> Clone for Throttle<F> {
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            at_most: self.at_most,
            pauses: Arc::clone(&self.pauses),
        }
    }
}

impl<F> fmt::Debug for Throttle<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("at_most", &self.at_most).finish_non_exhaustive()
    }
}

impl<S, F> Layer<S> for Throttle<F> {
    type Service = ThrottleService<S, F>;

    fn layer(&self, inner: S) -> ThrottleService<S, F> {
        ThrottleService { inner, throttle: self.clone() }
    }
}

/// A service whose requests wait for their permits; created by a [`Throttle`].
///
/// It is always ready, and polls the inner service for readiness only when a request has its
/// permit: a queued request occupies no connection.
///
/// | the response has | pause |
/// |---|---|
/// | status 429 or 503, and `Retry-After` | until then |
/// | `RateLimit` with `r=0` (IETF draft 11), with any status | its `t`, the longest of several |
/// | `grpc-status` 8 or 14, and `Retry-After` | until then |
/// | a gRPC status with `RetryInfo` in its headers (feature `tonic`) | its `retry_delay` |
///
/// The longer one of `Retry-After` and `RetryInfo` applies, because a method may not know all limits of its service. A gRPC
/// call has its status in the headers if it failed before its first message. Redirects that the inner service follows take
/// no further permits, and the response at their end counts for the limiter of the first request.
///
/// # Examples
///
/// ```
/// # use std::{convert::Infallible, future::ready};
/// use std::time::Duration;
/// use http::{Request, Response};
/// use ratelimit_runtime::{Limits, Quota, client::{Throttle, ThrottleError}};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().no_limits_file().build().await?;
/// let partner = limits.limiter("partner", Quota::per_minute(600));
/// let throttle = Throttle::new(move |_: &Request<()>| partner.clone());
/// let upstream = service_fn(|_: Request<()>| {
///     ready(Response::builder().status(429).header("retry-after", "90").body(()))
/// });
/// let client = throttle.timeout(Duration::from_secs(5)).layer(upstream);
///
/// assert_eq!(client.clone().oneshot(Request::new(())).await?.status(), 429);
/// let Err(ThrottleError::Rejected(rejection)) = client.oneshot(Request::new(())).await else {
///     panic!("the upstream asked for a pause")
/// };
/// assert!(rejection.retry_after() > Some(Duration::from_secs(80)));
/// # Ok(())
/// # }
/// ```
pub struct ThrottleService<S, F> {
    inner: S,
    throttle: Throttle<F>,
}

impl<S: Clone, F> Clone for ThrottleService<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), throttle: self.throttle.clone() }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for ThrottleService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleService")
            .field("inner", &self.inner)
            .field("throttle", &self.throttle)
            .finish()
    }
}

impl<S, F, R> Service<R> for ThrottleService<S, F>
where
    S: Service<R, Response: Answered> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&R) -> Limiter,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = ThrottleError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let limiter = (self.throttle.limiter)(&request);
        let (mut inner, pauses) = (self.inner.clone(), Arc::clone(&self.throttle.pauses));
        let at_most = self.throttle.at_most;
        Box::pin(async move {
            let clock = limiter.clock();
            let name = limiter.joint_name();
            let (turn, began_ms) = (pauses.turn(&name, clock), clock.now_ms());
            loop {
                let waited = Duration::from_millis(clock.now_ms().saturating_sub(began_ms));
                let left = at_most.map(|at_most| at_most.saturating_sub(waited));
                let Some(unsent) = admit(&limiter, &turn, left).await? else { continue };
                let ready = poll_fn(|context| inner.poll_ready(context)).await;
                ready.map_err(ThrottleError::Service)?;
                if turn.left().is_none() {
                    unsent.send();
                    break;
                }
                // A pause began meanwhile: others may have the connection until it is over.
                inner = inner.clone();
            }
            drop(turn);
            let answer = inner.call(request).await.map_err(ThrottleError::Service)?;
            if let Some(length) = pause(&answer, clock.now_ms()) {
                pauses.pause(&name, clock, length);
            }
            Ok(answer)
        })
    }
}

/// Waits for a permit; or, if the limiter is paused or a pause begins, for its end, and returns `None`.
async fn admit(
    limiter: &Limiter,
    turn: &Turn<'_>,
    left: Option<Duration>,
) -> Result<Option<Unsent>, Rejection> {
    if let Some(pause) = turn.left() {
        if left.is_some_and(|left| pause > left) {
            let rejection = limiter.rejection(Reason::WaitTooLong);
            let rejection = rejection.with_detail("the upstream asked for a pause");
            return Err(rejection.with_retry_after(Some(pause)));
        }
        return tokio::select! {
            biased;
            rejection = limiter.shut_down() => Err(rejection),
            () = turn.sit_out(pause) => Ok(None),
        };
    }
    turn.in_order().await;
    let mut acquire = pin!(async {
        match left {
            Some(left) => limiter.acquire_timeout(1, left).await,
            None => limiter.acquire(1).await,
        }
    });
    let mut is_in_line = false;
    let permit = poll_fn(|context| {
        let permit = acquire.as_mut().poll(context);
        // From its first poll on, the request is in the limiter's order.
        if !std::mem::replace(&mut is_in_line, true) {
            turn.go_on();
        }
        permit
    });
    tokio::select! {
        biased;
        permit = permit => Ok(Some(Unsent(Some(permit?)))),
        () = turn.paused() => Ok(None),
    }
}

/// The permit of a request that was not sent. When it is dropped, it is given back; if the store does not accept
/// that, it stays spent.
struct Unsent(Option<Permit>);

impl Unsent {
    fn send(mut self) {
        self.0 = None;
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(permit) = &self.0 {
            permit.record(0);
        }
    }
}
