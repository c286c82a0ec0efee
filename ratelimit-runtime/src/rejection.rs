//! A refusal as an error, and how it leaves a function.

use std::{fmt, slice, sync::Arc, time::Duration};

use crate::Quota;

/// Why a rate-limited call did not happen.
///
/// Small, cheap to clone, and without anything a caller sent: the limiter's template is in it,
/// the key's values are not.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Reason, Rejection};
///
/// #[derive(Debug)]
/// enum ShopError {
///     Busy { seconds: u64 },
///     Down,
/// }
///
/// impl From<Rejection> for ShopError {
///     fn from(rejection: Rejection) -> Self {
///         match rejection.reason() {
///             Reason::StoreUnavailable => Self::Down,
///             _ => Self::Busy { seconds: rejection.retry_after().map_or(1, |wait| wait.as_secs() + 1) },
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    limiter: Arc<str>,
    reason: Reason,
    retry_after: Option<Duration>,
    quota: Option<Quota>,
    violated: Option<Arc<[Quota]>>,
    detail: Option<Arc<str>>,
}

/// What kept a call from its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The window is used up, and the call was not to wait.
    Limited,
    /// The permit would come later than the call may wait.
    WaitTooLong,
    /// The store did not answer in time and `on_store_error` is `reject`. Over HTTP this is 503,
    /// not 429: the caller did nothing wrong.
    StoreUnavailable,
    /// The store answered with an error that waiting does not cure, such as a wrong password or a
    /// key that holds something else.
    StoreMisconfigured,
    /// More permits were asked for than a full window has, so no wait can help.
    ExceedsCapacity,
    /// As many calls of this process wait for this limiter already as `max_waiters` allows, or it
    /// allows none to.
    QueueFull,
    /// The call asked for no permits, or for a number of permits that is negative or too large.
    InvalidPermits,
    /// No quota is known for the limiter.
    NotConfigured,
}

impl Rejection {
    pub(crate) fn new(limiter: &Arc<str>, reason: Reason) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            reason,
            retry_after: None,
            quota: None,
            violated: None,
            detail: None,
        }
    }

    pub(crate) fn retry_after_some(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    pub(crate) fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = Some(quota);
        self
    }

    pub(crate) fn with_violated(mut self, violated: Option<Arc<[Quota]>>) -> Self {
        self.violated = violated;
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<Arc<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The limiter's key as it was written, such as `orders:{user_id}`.
    #[must_use]
    pub fn limiter(&self) -> &str {
        &self.limiter
    }

    /// What kept the call from its permit.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// When the same call could be admitted, counted from now; `None` when waiting would not
    /// help or nobody can tell.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The quota that refused the call, where one did: of several, the one with the longest wait.
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        self.quota
    }

    /// The quotas that refused the call, the shortest window first: more than one where a key has
    /// [several limits](crate::guide::several_limits).
    #[must_use]
    pub fn violated(&self) -> &[Quota] {
        match (&self.violated, &self.quota) {
            (Some(quotas), _) => quotas,
            (None, Some(quota)) => slice::from_ref(quota),
            (None, None) => &[],
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limiter = &self.limiter;
        match self.reason {
            Reason::Limited => write!(f, "rate limit `{limiter}` exceeded")?,
            Reason::WaitTooLong => {
                write!(f, "rate limit `{limiter}` exceeded, and its permit would come too late")?;
            }
            Reason::StoreUnavailable => {
                write!(f, "rate limit `{limiter}` could not be checked")?;
            }
            Reason::StoreMisconfigured => {
                write!(f, "rate limit `{limiter}` cannot be checked")?;
            }
            Reason::ExceedsCapacity if self.quota.is_some_and(|quota| quota.rate() == 0) => {
                return write!(f, "rate limit `{limiter}` admits nobody");
            }
            Reason::ExceedsCapacity => {
                write!(f, "rate limit `{limiter}` can never grant so many permits at once")?;
            }
            Reason::QueueFull => {
                write!(f, "too many calls are waiting for rate limit `{limiter}`")?;
            }
            Reason::InvalidPermits => {
                write!(f, "rate limit `{limiter}` was asked for a senseless number of permits")?;
            }
            Reason::NotConfigured => write!(f, "rate limit `{limiter}` has no quota")?,
        }
        if let Some(quotas) = &self.violated {
            let quotas: Vec<String> = quotas.iter().map(ToString::to_string).collect();
            write!(f, ": {}", quotas.join(" and "))?;
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, ", retry after {wait:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}

/// How a [`Rejection`] leaves an annotated function.
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
    message = "a `#[rate_limit]` function that can refuse a call must be able to return the rejection",
    label = "`{Self}` cannot hold a `ratelimit_runtime::Rejection`",
    note = "return `Result<T, E>` where `E: From<ratelimit_runtime::Rejection>`",
    note = "or name a function that answers instead, with `fallback = path::to::function`",
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
