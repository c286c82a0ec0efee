//! Where limiters keep their state.
//!
//! A [`Store`] decides [`Group`]s of callers atomically. It applies the rules only; policies and waiting
//! belong to the limiter. Tests access it through `__private::store`.
#![cfg_attr(
    not(feature = "test-util"),
    allow(unreachable_pub, reason = "stores are closed: only tests reach them from outside")
)]

mod any;
mod group;
mod keys;
mod member;
mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(not(feature = "redis"))]
#[path = "store/no_redis.rs"]
pub(crate) mod redis;
mod replaced;
mod request;
mod sweep;

use std::{future::Future, time::Duration};

use ratelimit_spec::Penalty;
use tokio::time::Instant;

#[cfg(all(feature = "redis", feature = "test-util"))]
pub use self::redis::hooks::*;
pub(crate) use self::{
    any::AnyStore,
    group::Heard,
    memory::{Lease, Rejects, Slot, Terms, Whose},
    sweep::{SHARDS, Sweep, sweep},
};
pub use self::{
    group::Group,
    keys::StateKeys,
    member::{Counts, Member, MemberId},
    memory::MemoryStore,
    redis::RedisStore,
    request::Request,
};
pub use crate::algorithm::{
    Charge, Charged, Config, Grant, Refused, Ticket,
    reconcile::{Assertion, Reconciled},
};
use crate::{StoreError, algorithm::reconcile::Reconciliation};

/// The replies to groups: for each group its replies by limiter and caller, or its error.
pub type Decided = Vec<Result<Vec<Vec<Reply>>, StoreError>>;

/// A store of limiter state, which makes the decisions.
///
/// The suite in `tests/store` checks what every store must do, on each of them.
pub trait Store: Send + Sync + 'static {
    /// Decides groups in order, in one atomic step and at one time. The configuration of each limiter is
    /// reconciled first.
    ///
    /// A caller's replies show which limiters reject it: one that would have admitted it replies
    /// [`Outcome::NotTaken`]. If one limiter of a group is `PerClient` or `Unknown`, the group takes
    /// nothing, and its other limiters reply `NotTaken`. The order of limiters changes no outcome.
    ///
    /// The replies of one limiter are those of separate calls at one instant, so a later smaller cost may be
    /// granted after an earlier one was rejected. They differ only in `outcome`, `remaining` and
    /// `retry_after_ms`; what is reported once (`reconciled`, `replaced`, `ahead_ms`) is in the first.
    ///
    /// # Errors
    ///
    /// The outer error concerns the whole call: the store cannot reply. The error of a group concerns that
    /// group alone: state in an unsupported format, a key of another type, or a group that names a limiter
    /// twice or lacks a cost. An exceeded limit is not an error. On Redis Cluster, the whole call fails
    /// unless all its limiters are in one slot.
    fn decide(
        &self,
        groups: &[Group<'_>],
    ) -> impl Future<Output = Result<Decided, StoreError>> + Send;

    /// Takes permits that are free now or within this many milliseconds, for each of several costs
    /// in order and in one atomic step, and returns when each caller may proceed; later callers are
    /// scheduled after it. A cost whose permits are free too late is rejected, with nothing taken,
    /// and so is every later cost. A rule without reservations rejects every cost
    /// ([`Reservation`]). What is reported once (`reconciled`, `ahead_ms`) is in the first reply.
    ///
    /// No caller can reserve further ahead than 2^51 / `rate` milliseconds, regardless of its wait:
    /// 17 minutes at the greatest rate, and 70 000 years at 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot reply, or if the state has an unsupported format.
    fn reserve(
        &self,
        request: &Request<'_>,
        costs: &[u32],
        within_ms: u64,
    ) -> impl Future<Output = Result<Vec<Reservation>, StoreError>> + Send;

    /// Refunds the permits that a grant still holds, and none of any other grant. Returns their number: 0 if
    /// its window is over, if the limiter is `per_client`, or if a change of the rule has made its permits
    /// indistinguishable from others. A slot of a leaky bucket is refunded only if nothing was placed after
    /// it.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn give_back(
        &self,
        keys: &StateKeys,
        grant: &Grant,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Charges permits for a cost that is known only afterwards. Takes the permits that are free, and records
    /// the rest as debt. Every process pays the debt before it is granted anything. The reply is that of a
    /// later peek for one permit, with [`Outcome::Granted`] if the store counts the limiter.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn charge(
        &self,
        request: &Request<'_>,
        charge: Charge,
    ) -> impl Future<Output = Result<(Reply, Charged), StoreError>> + Send;

    /// Returns the reply of [`decide`](Self::decide) to a request of this cost, without changing anything.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn peek(
        &self,
        request: &Request<'_>,
        cost: u32,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;

    /// Releases permits, owed ones first and then the oldest, so that no window can grant too many. Returns
    /// their number: 0 if the limiter was never configured, if it is `per_client`, or while slots of a leaky
    /// bucket are reserved.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn release(
        &self,
        keys: &StateKeys,
        permits: u32,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Records a rejection, and blocks the limiter if it was rejected in as many consecutive
    /// windows as its penalty allows. Until that ends, [`decide`](Self::decide) grants nothing to
    /// requests with a [penalty](Request::penalty), and replies [`Outcome::Blocked`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot reply.
    fn penalize(
        &self,
        keys: &StateKeys,
        penalty: &Penalty,
        per_ms: u64,
    ) -> impl Future<Output = Result<Refused, StoreError>> + Send;

    /// Resets the counts of rejected windows and of blocks of the limiter, and returns whether
    /// there were any.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot reply.
    fn lift(&self, keys: &StateKeys) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Sets the stored configuration explicitly, and returns whether it was written. It stays until a process
    /// that is configured differently starts, but at least for `hold_ms`.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn write(
        &self,
        keys: &StateKeys,
        config: Config,
        when: WriteWhen,
        state: KeepState,
        hold_ms: u64,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the stored configuration, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn read(
        &self,
        keys: &StateKeys,
    ) -> impl Future<Output = Result<Option<StoredConfig>, StoreError>> + Send;

    /// Deletes configuration, state and penalty, and returns whether there was any.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn delete(&self, keys: &StateKeys) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Sets or clears the expiry of all data of a limiter, and returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn expire(
        &self,
        keys: &StateKeys,
        expiry: Expiry,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the time until the limiter expires, or `None` if it does not expire or does not exist.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn ttl(
        &self,
        keys: &StateKeys,
    ) -> impl Future<Output = Result<Option<Duration>, StoreError>> + Send;

    /// Reconciles only the configuration, for limiters that are counted in the process.
    ///
    /// # Errors
    ///
    /// As for `reserve`.
    fn assert(
        &self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send;
}

/// The condition under which [`Store::write`] writes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteWhen {
    /// Always.
    Always,
    /// Only if no complete configuration is stored.
    Absent,
    /// Only if a configuration is stored.
    Present,
}

/// The effect of a deliberate change of the quota on permits in use.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeepState {
    /// They are discarded: the whole new quota is free.
    Reset,
    /// They still count.
    Keep,
}

/// The time at which a limiter expires.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// This many milliseconds from now.
    At(u64),
    /// This many milliseconds after its last use; 0 is never. Redisson's `keepAliveTime`.
    Idle(u64),
    /// Never, unless a keep-alive is set.
    Cleared,
}

/// The reply of a [`Store`] to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The outcome of the request.
    pub outcome: Outcome,
    /// Permits left after the request.
    pub remaining: u64,
    /// Milliseconds until the same request could be granted if no other arrives; 0 if it could be granted
    /// now, or never. After a grant of the last permits, this is the time until the next are free.
    pub retry_after_ms: u64,
    /// Milliseconds until the whole quota is free, if no request arrives.
    pub reset_after_ms: u64,
    /// Milliseconds until more permits are free than are left; 0 if all are free. As of the end of a batch,
    /// after which other callers may have less left.
    pub more_after_ms: u64,
    /// Milliseconds since the Unix epoch by the store's clock.
    pub now_ms: u64,
    /// How far in the future a peer with a wrong clock dated a grant, in milliseconds.
    pub ahead_ms: u64,
    /// How far the grants of a bucket have moved so far because permits before them were refunded, in
    /// fractions of a permit that only the rule interprets.
    pub(crate) moved: u64,
    /// The active configuration.
    pub config: Config,
    /// The outcome of reconciliation, if there was anything to reconcile.
    pub reconciled: Option<Reconciled>,
    /// The stored configuration that ours replaced, without its keep-alive.
    pub replaced: Option<&'static Config>,
    /// The process that announced the configuration that this one follows, if no process has sent a
    /// heartbeat for that configuration for a while.
    pub announcer: Option<MemberId>,
    /// Which of a key's several limits rejected, one bit for each. The limiter sets it when it combines their
    /// replies; a store handles one limit at a time and leaves it empty.
    pub(crate) violated: u8,
}

impl Reply {
    /// Adds the outcome of reconciliation to the reply.
    fn after(self, outcome: Reconciliation) -> Self {
        let Reconciliation { reconciled, replaced } = outcome;
        Self { reconciled, replaced: replaced.and_then(replaced::kept), ..self }
    }

    /// Returns the reply to the next request of the same call: only the first one reports what happened to the
    /// configuration, and dates in the future.
    #[cfg(feature = "redis")]
    fn of_next(self) -> Self {
        Self { reconciled: None, replaced: None, announcer: None, ahead_ms: 0, ..self }
    }

    /// Returns the reply of a limiter that is blocked for this long, to a request for these permits, which are free
    /// after `wait_ms`. No wait helps a request for more than the capacity.
    fn blocked_for(self, block_ms: u64, permits: u64, wait_ms: u64) -> Self {
        let (ms, capacity) = (block_ms.max(wait_ms), self.config.capacity());
        let (outcome, remaining, retry_after_ms) = match permits > capacity {
            true => (Outcome::ExceedsCapacity, capacity, 0),
            false => (Outcome::Blocked, 0, ms),
        };
        let reset_after_ms = self.reset_after_ms.max(ms);
        Self { outcome, remaining, retry_after_ms, reset_after_ms, more_after_ms: ms, ..self }
    }
}

/// The heartbeat of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat<'a> {
    pub(crate) key_prefix: &'a str,
    pub(crate) id: MemberId,
    pub(crate) program: &'a str,
    /// When the process started.
    pub(crate) since: Instant,
    /// Milliseconds that the process counts as alive without another heartbeat.
    pub(crate) lives_ms: u64,
    /// The counts of its limiters, one per line.
    pub(crate) limiters: &'a str,
}

/// The stored configuration of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredConfig {
    /// The active configuration.
    pub config: Config,
    /// Milliseconds for which no process replaces it; 0 if it is not held.
    pub held_for_ms: u64,
}

impl Grant {
    /// Returns the grant of a granted reply. `granted_after` is the number of permits that the limiter
    /// granted to later callers in the same step.
    #[must_use]
    pub fn of(reply: &Reply, permits: u32, granted_after: u64) -> Self {
        let ends_ms = reply.now_ms.saturating_add(reply.reset_after_ms);
        Self::new(reply.config, permits, ends_ms, granted_after).moved(reply.moved)
    }
}

/// The reply of a [`Store`] to a caller that can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reservation {
    /// The reply as to any other request, after the permits were taken. A limiter rejects if its active rule
    /// is not a bucket.
    pub reply: Reply,
    /// Milliseconds after which the caller may proceed; 0 unless it was granted.
    pub wait_ms: u64,
    /// The identity of the reservation.
    pub ticket: Ticket,
}

/// The outcome of a request to a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The permits were granted.
    Granted,
    /// Not enough permits are free now.
    Refused,
    /// A penalty blocks the limiter now. No permits are free before the block ends.
    Blocked,
    /// The request exceeds the capacity: a full window has fewer permits.
    ExceedsCapacity,
    /// Permits were free, but another limiter of the joint request rejected it; nothing was taken.
    NotTaken,
    /// The limiter is stored as `per_client`, so the store does not count it.
    PerClient,
    /// Nothing is stored, and the process has no configuration of its own.
    Unknown,
}
