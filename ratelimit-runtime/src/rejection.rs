//! Rejections, and their conversion to return types.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use crate::{Decision, Quota, Reason, StoreError};

/// The error of a rate-limited call that was rejected.
///
/// One pointer wide, cheap to clone, and without anything a caller sent: the limiter's template is in
/// it, the key's values are not. [`source`](std::error::Error::source) leads to the [`StoreError`] if
/// the store is the reason, or the limit cannot be enforced as configured.
///
/// With the feature `axum` it is a response, with `actix` an error of a handler, and with `tonic` it converts into a
/// `Status`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Reason, Rejection};
///
/// #[derive(Debug)]
/// enum ShopError {
///     TooLarge,
///     Busy { retry_after: Option<Duration> },
///     Down(Rejection),
/// }
///
/// impl From<Rejection> for ShopError {
///     fn from(rejection: Rejection) -> Self {
///         match rejection.reason() {
///             Reason::ExceedsCapacity => Self::TooLarge,
///             Reason::StoreUnavailable | Reason::StoreMisconfigured => Self::Down(rejection),
///             _ => Self::Busy { retry_after: rejection.retry_after() },
///         }
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Rejection(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    reason: Reason,
    /// Not counted if no limit decided.
    decision: Decision,
    detail: Option<Arc<str>>,
    source: Option<StoreError>,
    /// Set once the rejection is the source of an error.
    #[cfg(all(feature = "client", feature = "tonic"))]
    status: std::sync::OnceLock<tonic::Status>,
}

impl Rejection {
    /// Creates the rejection of a request that no limiter decided.
    pub(crate) fn new(limiter: &Arc<str>, reason: Reason) -> Self {
        Self::refused(reason, Decision::uncounted(Arc::clone(limiter), UNIX_EPOCH))
    }

    /// Creates the rejection of a request by a limiter for this reason, or as blocked if a penalty blocks the key.
    pub(crate) fn refused(reason: Reason, decision: Decision) -> Self {
        let reason = if decision.blocked { Reason::Blocked } else { reason };
        Self(Arc::new(Inner {
            reason,
            decision,
            detail: None,
            source: None,
            #[cfg(all(feature = "client", feature = "tonic"))]
            status: std::sync::OnceLock::new(),
        }))
    }

    pub(crate) fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        self.with(|inner| inner.decision.retry_after = retry_after)
    }

    /// Returns the rejection of a call that another limiter rejects for this long. Without a time of its own,
    /// waiting does not help.
    pub(crate) fn not_before(self, other: Option<Duration>) -> Self {
        let own = self.retry_after();
        if own.is_some() && other > own { self.with_retry_after(other) } else { self }
    }

    /// Returns the rejection of a key that is blocked for this long.
    pub(crate) fn blocked_for(self, block: Duration) -> Self {
        self.with(|inner| {
            inner.reason = Reason::Blocked;
            inner.decision = inner.decision.clone().blocked_for(block);
        })
    }

    pub(crate) fn with_detail(self, detail: impl Into<Arc<str>>) -> Self {
        self.with(|inner| inner.detail = Some(detail.into()))
    }

    /// Adds the store's error, as the detail and as the source.
    pub(crate) fn with_source(self, error: &StoreError) -> Self {
        let detail = error.to_string();
        self.with_detail(detail).with(|inner| inner.source = Some(error.clone()))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Returns the rejection as a status of gRPC, which has the same source.
    #[cfg(all(feature = "client", feature = "tonic"))]
    pub(crate) fn status(&self) -> &tonic::Status {
        self.0.status.get_or_init(|| {
            let mut status = tonic::Status::from(self.clone());
            if let Some(source) = self.0.source.clone() {
                status.set_source(Arc::new(source));
            }
            status
        })
    }

    pub(crate) fn template(&self) -> &Arc<str> {
        &self.0.decision.limiter
    }

    /// Returns the limiter's key as it was written, such as `orders:{user_id}`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Rejection, rate_limit};
    ///
    /// #[rate_limit(key = "wishlist:{user_id}", rate = 1, per = "1h", wait = "none")]
    /// async fn wishlist(user_id: u64) -> Result<(), Rejection> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// limits.scope(async {
    ///     assert!(wishlist(42).await.is_ok());
    ///     let rejection = wishlist(42).await.unwrap_err();
    ///     assert_eq!(rejection.limiter(), "wishlist:{user_id}");
    /// }).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limiter(&self) -> &str {
        self.template()
    }

    /// Returns the reason for the rejection.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Reason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let upload = limits.limiter("upload", Quota::per_minute(10));
    /// upload.try_acquire(8).await?;
    ///
    /// assert_eq!(upload.try_acquire(8).await.unwrap_err().reason(), Reason::Limited);
    /// assert_eq!(upload.try_acquire(11).await.unwrap_err().reason(), Reason::ExceedsCapacity);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Returns the time until the same call can be admitted, or `None` if waiting does not help or
    /// the time is unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Rejection};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let upload = limits.limiter("upload", Quota::per_hour(10));
    /// upload.try_acquire(8).await?;
    ///
    /// let minutes = |rejection: Rejection| Some(rejection.retry_after()?.as_secs().div_ceil(60));
    /// assert_eq!(minutes(upload.try_acquire(8).await.unwrap_err()), Some(60));
    /// assert_eq!(minutes(upload.try_acquire(11).await.unwrap_err()), None, "it has 10 at most");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.decision.retry_after
    }

    /// Returns the exceeded quotas, the shortest window first: more than one only if the key has
    /// [several limits](crate::guide::several_limits).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Quotas};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let [minute, hour, day] = [Quota::per_minute(3), Quota::per_hour(5), "20 per 24h".parse()?];
    /// let messages = limits.limiter("messages:ada", Quotas::new([minute, hour, day])?);
    /// messages.try_acquire(3).await?;
    ///
    /// assert_eq!(messages.try_acquire(1).await.unwrap_err().violated(), [minute]);
    /// assert_eq!(messages.try_acquire(3).await.unwrap_err().violated(), [minute, hour]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn violated(&self) -> &[Quota] {
        self.several_violated().unwrap_or_else(|| self.quota().as_slice())
    }

    /// Returns the decision that rejected the call, or `None` if no permits were counted: the store
    /// was unavailable, the request exceeds the capacity, or other callers wait already.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let upload = limits.limiter("upload", Quota::per_minute(10));
    /// upload.try_acquire(8).await?;
    ///
    /// let rejection = upload.try_acquire(8).await.unwrap_err();
    /// assert_eq!(rejection.decision().map(|decision| decision.remaining()), Some(2));
    /// let rejection = upload.try_acquire(11).await.unwrap_err();
    /// assert_eq!(rejection.decision(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        Some(&self.0.decision).filter(|decision| decision.counted)
    }

    /// Returns whether `on_store_error` decided because the store was unavailable, or the limits had ended.
    pub(crate) fn is_degraded(&self) -> bool {
        self.reason() == Reason::StoreUnavailable || self.0.decision.degraded
    }

    /// Returns the known limits, whether the call was counted or not.
    #[cfg(feature = "_web")]
    pub(crate) fn limits(&self) -> Option<&Decision> {
        Some(&self.0.decision).filter(|decision| decision.quota.is_some())
    }

    pub(crate) fn quota(&self) -> &Option<Quota> {
        &self.0.decision.quota
    }

    /// Returns the exceeded quotas of a key with several limits.
    fn several_violated(&self) -> Option<&[Quota]> {
        self.0.decision.violated.as_deref()
    }

    fn cause(&self) -> Option<&StoreError> {
        self.0.source.as_ref()
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("limiter", &self.limiter())
            .field("reason", &self.reason())
            .field("retry_after", &self.retry_after())
            .field("violated", &self.violated())
            .field("source", &self.cause())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limiter = self.limiter();
        match self.0.reason {
            Reason::Limited => write!(f, "rate limit `{limiter}` exceeded")?,
            Reason::WaitTooLong => {
                write!(
                    f,
                    "rate limit `{limiter}` exceeded, and no permit becomes free within the allowed wait"
                )?;
            }
            Reason::Blocked => {
                write!(f, "rate limit `{limiter}` was exceeded too often, and the key is blocked")?;
            }
            Reason::StoreUnavailable => {
                write!(f, "store unavailable for rate limit `{limiter}`")?;
            }
            Reason::NotConfigured if self.cause().is_none() => {
                write!(f, "rate limit `{limiter}` has no quota")?;
            }
            Reason::StoreMisconfigured | Reason::NotConfigured => {
                write!(f, "rate limit `{limiter}` is misconfigured")?;
            }
            Reason::ExceedsCapacity if self.quota().is_some_and(|quota| quota.rate() == 0) => {
                return write!(f, "rate limit `{limiter}` has a rate of 0 and rejects every call");
            }
            Reason::ExceedsCapacity => {
                write!(f, "rate limit `{limiter}` can never grant that many permits at once")?;
            }
            Reason::QueueFull => {
                write!(f, "too many calls are waiting for rate limit `{limiter}`")?;
            }
        }
        if let Some(detail) = &self.0.detail {
            write!(f, ": {detail}")?;
        } else if let Some(quotas) = self.several_violated() {
            let quotas: Vec<String> = quotas.iter().map(ToString::to_string).collect();
            write!(f, ": {}", quotas.join(" and "))?;
        }
        if let Some(wait) = self.retry_after() {
            write!(f, ", retry after {wait:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|error| error as _)
    }
}

/// Returns whether a response has a status of rejections, with which `Retry-After` has a meaning. A gRPC call that fails
/// before its first message has its status in the headers, with 200 in front.
#[cfg(any(feature = "client", feature = "tower"))]
pub(crate) fn is_rejected(status: http::StatusCode, headers: &http::HeaderMap) -> bool {
    use http::StatusCode;

    const RESOURCE_EXHAUSTED: &str = "8";
    const UNAVAILABLE: &str = "14";

    match headers.get("grpc-status") {
        Some(status) => status == RESOURCE_EXHAUSTED || status == UNAVAILABLE,
        None => matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// Conversion of a [`Rejection`] into the return type of an annotated function.
///
/// Implemented for every `Result<T, E>` whose error can be made from a rejection and, with the
/// web features, for response types. Implement it for a return type of your own:
///
/// ```
/// use ratelimit_runtime::{FromRejection, Rejection};
///
/// enum Reply {
///     Text(String),
///     TryLater,
/// }
///
/// impl FromRejection for Reply {
///     fn from_rejection(_: Rejection) -> Self {
///         Reply::TryLater
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a `#[rate_limit]` function that can reject a call must be able to return the rejection",
    label = "`{Self}` cannot be created from a `ratelimit_runtime::Rejection`",
    note = "return `Result<T, E>`, such as `Result<impl IntoResponse, Rejection>`, and implement `From<ratelimit_runtime::Rejection>` for `E`",
    note = "for a type of a web framework, enable the feature `actix`, `axum` or `tonic` of `ratelimit-runtime`; wrap a type of another crate in a newtype",
    note = "or name a fallback function, with `fallback = path::to::function`",
    note = "or let every call wait for its permit: `wait = \"forever\"`, a number for `permits`, and no `on_store_error = \"reject\"`"
)]
pub trait FromRejection {
    /// Converts the rejection into the return type of the function.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{FromRejection, Limiter, Limits, Quota, Reason, Rejection};
    ///
    /// async fn limited<T: FromRejection>(limiter: &Limiter, call: impl Future<Output = T>) -> T {
    ///     match limiter.try_acquire(1).await {
    ///         Ok(_) => call.await,
    ///         Err(rejection) => T::from_rejection(rejection),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(1));
    /// search.try_acquire(1).await?;
    /// let hits: Result<u32, Rejection> = limited(&search, async { Ok(7) }).await;
    /// assert_eq!(hits.unwrap_err().reason(), Reason::Limited);
    /// # Ok(())
    /// # }
    /// ```
    fn from_rejection(rejection: Rejection) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Rejection>> FromRejection for Result<T, E> {
    fn from_rejection(rejection: Rejection) -> Self {
        Err(rejection.into())
    }
}
