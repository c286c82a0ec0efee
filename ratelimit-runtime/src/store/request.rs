//! A request to a store.

use ratelimit_spec::{Calendar, Penalty, Rule};
use tokio::time::Instant;

use super::{Assertion, Config, MemberId, StateKeys};

/// One request to a [`Store`](super::Store).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The names under which its state is stored.
    pub keys: &'a StateKeys,
    /// The configuration of the requesting process.
    pub config: Config,
    /// The revision of that configuration; a greater one is newer.
    pub revision: u64,
    /// The time at which the process received it; between equal revisions the later one is newer.
    pub since: Instant,
    /// Whether the process announces its configuration with this request.
    pub assertion: Assertion,
    /// The calendar that was last found active, for a process that may follow another one's. It is optional:
    /// a store without it takes longer.
    pub in_force: Option<Calendar>,
    /// The process itself, if it sends heartbeats.
    pub member: Option<MemberId>,
    /// The process whose configuration is stored, if it is known to be gone.
    pub abandons: Option<MemberId>,
    /// The penalty that may block it.
    pub penalty: Option<&'a Penalty>,
}

impl<'a> Request<'a> {
    /// Creates a request of a process that follows the stored configuration.
    #[must_use]
    pub fn new(keys: &'a StateKeys, config: Config, since: Instant) -> Self {
        let assertion = Assertion::Steady;
        Self {
            keys,
            config,
            revision: 0,
            since,
            assertion,
            in_force: None,
            member: None,
            abandons: None,
            penalty: None,
        }
    }

    /// Sets the revision of the configuration.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// Sets the calendar that was last found active.
    #[must_use]
    pub fn in_force(mut self, calendar: Option<Calendar>) -> Self {
        self.in_force = calendar;
        self
    }

    /// Sets the process that sends the request.
    #[must_use]
    pub fn member(mut self, member: Option<MemberId>) -> Self {
        self.member = member;
        self
    }

    /// Sets the process that is known to be gone.
    #[must_use]
    pub fn abandons(mut self, gone: Option<MemberId>) -> Self {
        self.abandons = gone;
        self
    }

    /// Sets the penalty that may block the limiter.
    #[must_use]
    pub fn penalty(mut self, penalty: Option<&'a Penalty>) -> Self {
        self.penalty = penalty;
        self
    }

    /// Returns whether the limiter may have no key in Redis but its hash: only a sliding window has a counter and
    /// a log.
    pub(crate) fn may_have_hash_alone(&self) -> bool {
        self.config.rule != Rule::SlidingWindow && self.penalty.is_none()
    }

    /// Announces the configuration with this request.
    #[must_use]
    pub fn assertion(mut self, assertion: Assertion) -> Self {
        self.assertion = assertion;
        self
    }
}
