//! Where limiters keep their state.
//!
//! A [`Store`] answers one [`Request`] with one [`Reply`], atomically. It knows the rules and
//! nothing of deadlines, policies or waiting: those are the limiter's.

mod memory;
pub(crate) mod redis;
#[cfg(feature = "test-util")]
pub mod suite;

use std::future::Future;

use tokio::time::Instant;

#[cfg(feature = "test-util")]
#[doc(hidden)]
pub use self::redis::scripts;
pub use self::{memory::MemoryStore, redis::RedisStore};
use crate::StoreError;
pub use crate::algorithm::reconcile::{Assertion, Config, Reconciled};

/// Keeps the state of limiters and decides by it.
///
/// What every store must do is written down as the suite in `store::suite`, which runs against
/// any store (feature `test-util`).
pub trait Store: Send + Sync + 'static {
    /// Reconciles the configuration, then takes the permits or says when they will be free, in
    /// one atomic step.
    ///
    /// # Errors
    ///
    /// When the store cannot answer. A limit that is used up is no error.
    fn acquire(
        &self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;

    /// Says what [`acquire`](Self::acquire) would, and changes nothing.
    ///
    /// # Errors
    ///
    /// As for `acquire`.
    fn peek(&self, request: &Request<'_>)
    -> impl Future<Output = Result<Reply, StoreError>> + Send;

    /// Reconciles the configuration alone, for limiters that count in the process.
    ///
    /// # Errors
    ///
    /// As for `acquire`.
    fn assert(
        &self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;
}

/// One request to a [`Store`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The names its state lives under.
    pub keys: &'a StateKeys,
    /// Permits to take, at least 1.
    pub permits: u32,
    /// What the asking process is configured with.
    pub config: Config,
    /// The revision of that configuration; a greater one is newer.
    pub revision: u64,
    /// Since when the process has it; between equal revisions the later one is newer.
    pub since: Instant,
    /// Whether the process states its configuration with this request.
    pub assertion: Assertion,
}

impl<'a> Request<'a> {
    /// A request for one permit from a process that goes by what is stored.
    #[must_use]
    pub fn new(keys: &'a StateKeys, config: Config, since: Instant) -> Self {
        let assertion = Assertion::Steady;
        Self {
            keys,
            permits: 1,
            config,
            revision: 0,
            since,
            assertion,
        }
    }

    /// Sets the number of permits.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// Sets the revision of the configuration.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// States the configuration with this request.
    #[must_use]
    pub fn assertion(mut self, assertion: Assertion) -> Self {
        self.assertion = assertion;
        self
    }
}

/// What a [`Store`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The answer proper.
    pub outcome: Outcome,
    /// Permits left after it.
    pub remaining: u64,
    /// Milliseconds until the same request can be granted; 0 unless it was refused.
    pub retry_after_ms: u64,
    /// Milliseconds until the whole quota is free, if nobody asks.
    pub reset_after_ms: u64,
    /// Milliseconds since the Unix epoch by the store's clock.
    pub now_ms: u64,
    /// The configuration in force.
    pub config: Config,
    /// What reconciliation did, if it had anything to do.
    pub reconciled: Option<Reconciled>,
}

/// Whether a [`Store`] handed the permits out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It did.
    Granted,
    /// Not now.
    Refused,
    /// Not ever: a full window has fewer permits.
    ExceedsCapacity,
    /// The limiter is stored as `per_client`, so the store does not count it.
    PerClient,
}

/// The names one limiter's state lives under, by Redisson's rule: the configuration under the
/// limiter's own name, counter and log beside it in the same cluster slot.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::store::StateKeys;
///
/// let keys = StateKeys::new("orders:42");
/// assert_eq!(keys.counter(), "{orders:42}:value");
/// assert_eq!(keys.log(), "{orders:42}:permits");
/// assert_eq!(StateKeys::new("t:{acme}:7").log(), "t:{acme}:7:permits");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateKeys {
    config: String,
    counter: String,
    log: String,
}

impl StateKeys {
    /// The names for a limiter of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let config = name.into();
        let suffixed = |suffix: &str| {
            if config.contains('{') {
                format!("{config}:{suffix}")
            } else {
                format!("{{{config}}}:{suffix}")
            }
        };
        Self {
            counter: suffixed("value"),
            log: suffixed("permits"),
            config,
        }
    }

    /// The name of the limiter, under which its configuration lives.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Where the counter lives.
    #[must_use]
    pub fn counter(&self) -> &str {
        &self.counter
    }

    /// Where the log lives.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }
}
