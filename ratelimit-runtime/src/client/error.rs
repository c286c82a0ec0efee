//! The error of a request without a response.

use std::{error::Error, fmt};

use crate::Rejection;

/// The error of a request that went through a [`Throttle`](super::Throttle).
///
/// With the feature `tonic`, the source of a rejection is its gRPC status: a call of a tonic client returns it.
///
/// # Examples
///
/// ```
/// use std::{io, time::Duration};
/// use ratelimit_runtime::client::ThrottleError;
///
/// /// When to send the request again, if that can help.
/// fn again_after(error: &ThrottleError<io::Error>) -> Option<Duration> {
///     match error {
///         ThrottleError::Rejected(rejection) => rejection.retry_after(),
///         ThrottleError::Service(error) => {
///             (error.kind() == io::ErrorKind::ConnectionReset).then_some(Duration::ZERO)
///         }
///         _ => None,
///     }
/// }
///
/// let error = ThrottleError::Service(io::ErrorKind::ConnectionReset.into());
/// assert_eq!(again_after(&error), Some(Duration::ZERO));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ThrottleError<E> {
    /// The request was not sent: it cannot wait for its permit, or for the end of a pause that the upstream requested.
    Rejected(Rejection),
    /// The inner service failed.
    Service(E),
}

impl<E> From<Rejection> for ThrottleError<E> {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl<E: fmt::Display> fmt::Display for ThrottleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => rejection.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for ThrottleError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // tonic's clients look for their status in the sources.
            #[cfg(feature = "tonic")]
            Self::Rejected(rejection) => Some(rejection.status()),
            #[cfg(not(feature = "tonic"))]
            Self::Rejected(rejection) => rejection.source(),
            Self::Service(error) => error.source(),
        }
    }
}
