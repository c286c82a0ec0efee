//! Rejections, and their conversion to return types.

use std::{fmt, slice, sync::Arc, time::Duration};

use crate::{Decision, Quota, Reason, StoreError};

/// The error of a rate-limited call that was rejected.
///
/// One pointer wide, cheap to clone, and without anything a caller sent: the limiter's template is in
/// it, the key's values are not. [`source`](std::error::Error::source) leads to the [`StoreError`] if
/// the store is the reason.
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

#[derive(Clone, Debug)]
struct Inner {
    limiter: Arc<str>,
    reason: Reason,
    retry_after: Option<Duration>,
    quota: Option<Quota>,
    violated: Option<Arc<[Quota]>>,
    decision: Option<Decision>,
    detail: Option<Arc<str>>,
    source: Option<StoreError>,
}

impl Rejection {
    pub(crate) fn new(limiter: &Arc<str>, reason: Reason) -> Self {
        Self(Arc::new(Inner {
            limiter: Arc::clone(limiter),
            reason,
            retry_after: None,
            quota: None,
            violated: None,
            decision: None,
            detail: None,
            source: None,
        }))
    }

    /// A request that a limiter refused.
    pub(crate) fn refused(
        limiter: &Arc<str>,
        reason: Reason,
        retry_after: Option<Duration>,
        (quota, violated): (Quota, Option<Arc<[Quota]>>),
        decision: Decision,
    ) -> Self {
        Self(Arc::new(Inner {
            limiter: Arc::clone(limiter),
            reason,
            retry_after,
            quota: Some(quota),
            violated,
            decision: Some(decision),
            detail: None,
            source: None,
        }))
    }

    pub(crate) fn retry_after_some(self, retry_after: Option<Duration>) -> Self {
        self.with(|inner| inner.retry_after = retry_after)
    }

    /// The same of a key that is blocked for so long.
    pub(crate) fn blocked_for(self, block: Duration) -> Self {
        self.with(|inner| {
            inner.reason = Reason::Blocked;
            inner.retry_after = Some(block);
            inner.decision = inner.decision.take().map(|decision| decision.blocked_for(block));
        })
    }

    pub(crate) fn with_quota(self, quota: Quota) -> Self {
        self.with(|inner| inner.quota = Some(quota))
    }

    pub(crate) fn with_detail(self, detail: impl Into<Arc<str>>) -> Self {
        self.with(|inner| inner.detail = Some(detail.into()))
    }

    /// The store's error, as the detail and as the source.
    pub(crate) fn with_source(self, error: &StoreError) -> Self {
        let detail = error.to_string();
        self.with_detail(detail).with(|inner| inner.source = Some(error.clone()))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    pub(crate) fn template(&self) -> &Arc<str> {
        &self.0.limiter
    }

    /// The limiter's key as it was written, such as `orders:{user_id}`.
    #[must_use]
    pub fn limiter(&self) -> &str {
        &self.0.limiter
    }

    /// Why the call was rejected.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// The time until the same call can be admitted, or `None` if waiting does not help or the time is
    /// unknown.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The exceeded quotas, the shortest window first: more than one only if the key has
    /// [several limits](crate::guide::several_limits).
    #[must_use]
    pub fn violated(&self) -> &[Quota] {
        match (&self.0.violated, &self.0.quota) {
            (Some(quotas), _) => quotas,
            (None, Some(quota)) => slice::from_ref(quota),
            (None, None) => &[],
        }
    }

    /// The decision that rejected the call, or `None` if no permits were counted: the store was
    /// unavailable, the request exceeds the capacity, or other callers wait already.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.0.decision.as_ref()
    }

    pub(crate) fn quota(&self) -> Option<Quota> {
        self.0.quota
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("limiter", &self.limiter())
            .field("reason", &self.reason())
            .field("retry_after", &self.retry_after())
            .field("violated", &self.violated())
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limiter = &self.0.limiter;
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
            Reason::StoreMisconfigured => {
                write!(f, "rate limit `{limiter}` is misconfigured")?;
            }
            Reason::ExceedsCapacity if self.0.quota.is_some_and(|quota| quota.rate() == 0) => {
                return write!(f, "rate limit `{limiter}` has a rate of 0 and rejects every call");
            }
            Reason::ExceedsCapacity => {
                write!(f, "rate limit `{limiter}` can never grant that many permits at once")?;
            }
            Reason::QueueFull => {
                write!(f, "too many calls are waiting for rate limit `{limiter}`")?;
            }
            Reason::NotConfigured => write!(f, "rate limit `{limiter}` has no quota")?,
        }
        if let Some(quotas) = &self.0.violated {
            let quotas: Vec<String> = quotas.iter().map(ToString::to_string).collect();
            write!(f, ": {}", quotas.join(" and "))?;
        }
        if let Some(detail) = &self.0.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(wait) = self.0.retry_after {
            write!(f, ", retry after {wait:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|error| error as _)
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
    note = "return `Result<T, E>`, and implement `From<ratelimit_runtime::Rejection>` for `E`",
    note = "for a type of another crate, enable its feature of `ratelimit-runtime`, or wrap it in a newtype",
    note = "or name a fallback function, with `fallback = path::to::function`",
    note = "or let every call wait for its permit, with `wait = \"forever\"`"
)]
pub trait FromRejection {
    /// Turns the rejection into what the function returns.
    fn from_rejection(rejection: Rejection) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Rejection>> FromRejection for Result<T, E> {
    fn from_rejection(rejection: Rejection) -> Self {
        Err(rejection.into())
    }
}
