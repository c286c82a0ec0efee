//! Store and setup errors.

mod setup;

use std::{error::Error, fmt, sync::Arc, time::Duration};

pub(crate) use self::setup::Place;
pub use self::setup::{Problem, ProblemKind, SetupError};

/// An error from a store.
///
/// [`source`](Error::source) leads to the driver's error if there is one.
///
/// # Examples
///
/// ```
/// use std::error::Error;
/// use ratelimit_runtime::{Limits, Quota, Rejection, StoreError};
///
/// fn of_store(rejection: &Rejection) -> Option<&StoreError> {
///     rejection.source()?.downcast_ref()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().build().await?;
/// let search = limits.limiter("search", Quota::per_second(100));
/// limits.shutdown().await;
///
/// let rejection = search.try_acquire(1).await.unwrap_err();
/// let error = of_store(&rejection).expect("the store is the reason");
/// assert_eq!(error.to_string(), "rate limits are shut down");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
    request: Request,
}

/// What became of the request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// It was not sent, because the store was known to be unavailable.
    Held,
    /// The store has not executed it.
    NotDone,
    /// The store may have executed it.
    InDoubt,
}

/// The kind of a [`StoreError`].
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limiter, StoreError, StoreErrorKind};
///
/// async fn charge(tokens: &Limiter, used: u64) -> Result<(), StoreError> {
///     match tokens.charge(used).await {
///         Ok(_) => Ok(()),
///         // An outage: the answer is worth more than its price.
///         Err(error) if error.kind() != StoreErrorKind::Misconfigured => Ok(()),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store did not reply within the deadline; `on_store_error` decides.
    Timeout,
    /// The store is unavailable or not ready; `on_store_error` decides.
    Unavailable,
    /// The store returns an error that lasts: credentials, permissions, a key of another type, a
    /// certificate. No policy covers these.
    Misconfigured,
}

impl StoreError {
    fn new(kind: StoreErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), source: None, request: Request::NotDone }
    }

    pub(crate) fn timeout(message: impl Into<Arc<str>>) -> Self {
        Self::new(StoreErrorKind::Timeout, message)
    }

    /// Creates the error of a call whose deadline is over.
    pub(crate) fn late(deadline: Duration) -> Self {
        Self::timeout(format!("no reply within {deadline:?}"))
    }

    /// Creates an error that is temporary.
    pub(crate) fn unavailable(message: impl Into<Arc<str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// Creates the error of a call after [`Limits::shutdown`](crate::Limits::shutdown).
    pub(crate) fn shut_down() -> Self {
        Self::unavailable("rate limits are shut down")
    }

    /// Creates an error that lasts until the configuration is changed.
    pub(crate) fn misconfigured(message: impl Into<Arc<str>>) -> Self {
        Self::new(StoreErrorKind::Misconfigured, message)
    }

    /// Adds the error that caused this one.
    pub(crate) fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error in other words.
    #[cfg(feature = "redis")]
    pub(crate) fn reworded(self, message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Marks whether the store may have executed the request.
    pub(crate) fn in_doubt(self, in_doubt: bool) -> Self {
        let request = if in_doubt { Request::InDoubt } else { Request::NotDone };
        Self { request, ..self }
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.request == Request::InDoubt
    }

    /// Marks the error of a request that was not sent, because the store was known to be unavailable.
    pub(crate) fn held(self) -> Self {
        Self { request: Request::Held, ..self }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn is_held(&self) -> bool {
        self.request == Request::Held
    }

    /// Returns the kind of the error: temporary, or lasting until the configuration is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, StoreErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// let error = limits.configured("tokens").charge(500).await.unwrap_err();
    /// assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "it has no quota");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
